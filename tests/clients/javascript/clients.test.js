// The JavaScript packages `openai` and `ai` (Vercel) with a base URL. test_javascript.py starts the servers and
// gives their URLs in the environment.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { embedMany, generateText, Output, streamText, tool } from 'ai';
import OpenAI from 'openai';
import { zodResponseFormat } from 'openai/helpers/zod';
import { z } from 'zod';

const { PAGODA_URL, PAGODA_MODEL_URL, PAGODA_EMBEDDINGS_URL } = process.env;
const ALPHABET = 'DEFGHIJ';
const WEATHER = { city: 'Oslo', unit: 'C' };
const WEATHER_TOOL = {
  type: 'function',
  function: {
    name: 'Weather',
    parameters: { type: 'object', properties: { city: { type: 'string' }, unit: { type: 'string' } } },
  },
};
const Person = z.strictObject({
  name: z.string().max(12),
  tags: z.array(z.enum(['old', 'young'])).max(2),
});
const QUESTION = [{ role: 'user', content: 'Describe a person, as JSON.' }];

const client = (url) => new OpenAI({ baseURL: url, apiKey: 'none', maxRetries: 0, timeout: 60_000 });
const script = (name) => ({ model: 'scripted', messages: [{ role: 'user', content: 'script:' + name }] });
const provider = (url) =>
  createOpenAICompatible({ name: 'pagoda', baseURL: url, apiKey: 'none', supportsStructuredOutputs: true });

test('openai: whole and streamed', async () => {
  const chat = client(PAGODA_URL).chat.completions;
  const whole = await chat.create(script('alphabet'));
  assert.equal(whole.choices[0].message.content, ALPHABET);
  const runner = chat.stream({ ...script('alphabet'), stream_options: { include_usage: true } });
  const final = await runner.finalChatCompletion();
  assert.equal(final.choices[0].message.content, ALPHABET);
  assert.equal(final.choices[0].finish_reason, whole.choices[0].finish_reason);
  assert.deepEqual(final.usage.completion_tokens, whole.usage.completion_tokens);
});

test('openai: tools', async () => {
  const chat = client(PAGODA_URL).chat.completions;
  const call = { ...script('weather'), tools: [WEATHER_TOOL] };
  const whole = await chat.create(call);
  const streamed = await chat.stream(call).finalChatCompletion();
  for (const { choices } of [whole, streamed]) {
    assert.equal(choices[0].finish_reason, 'tool_calls');
    const [made] = choices[0].message.tool_calls;
    assert.equal(made.function.name, 'Weather');
    assert.deepEqual(JSON.parse(made.function.arguments), WEATHER);
  }
});

test('openai: a stream that is left early disturbs nobody', async () => {
  const chat = client(PAGODA_URL).chat.completions;
  const stream = await chat.create({ ...script('alphabet'), stream: true });
  for await (const chunk of stream) if (chunk.choices[0].delta.content) break;
  assert.equal((await chat.create(script('alphabet'))).choices[0].message.content, ALPHABET);
});

test('openai: errors, completions, responses and models', async () => {
  const asking = client(PAGODA_URL);
  await assert.rejects(asking.chat.completions.create({ ...script('alphabet'), temperature: 3 }), (error) => {
    assert.ok(error instanceof OpenAI.BadRequestError);
    assert.equal(error.param, 'temperature');
    return true;
  });
  const text = await asking.completions.create({ model: 'scripted', prompt: 'script:alphabet', max_tokens: 20 });
  assert.equal(text.choices[0].text, ALPHABET);
  const whole = await asking.responses.create({ model: 'scripted', input: 'script:alphabet' });
  assert.equal(whole.output_text, ALPHABET);
  let streamed = '';
  for await (const event of await asking.responses.create({
    model: 'scripted', input: 'script:alphabet', stream: true,
  })) {
    if (event.type === 'response.output_text.delta') streamed += event.delta;
  }
  assert.equal(streamed, ALPHABET);
  assert.ok((await asking.models.list()).data.some((model) => model.id === 'scripted'));
});

test('openai: a parsed zod object', async () => {
  const answer = await client(PAGODA_MODEL_URL).chat.completions.parse({
    model: 'smollm2', messages: QUESTION, temperature: 0, max_tokens: 200,
    response_format: zodResponseFormat(Person, 'person'),
  });
  assert.ok(Person.parse(answer.choices[0].message.parsed));
});

test('openai: embeddings', { skip: !PAGODA_EMBEDDINGS_URL && 'no embedding model' }, async () => {
  const answer = await client(PAGODA_EMBEDDINGS_URL).embeddings.create({ model: 'smollm2', input: ['x', 'y'] });
  assert.deepEqual(answer.data.map((entry) => entry.embedding.length), [384, 384]);
});

test('ai: whole and streamed', async () => {
  const model = provider(PAGODA_URL)('scripted');
  const whole = await generateText({ model, prompt: 'script:alphabet', maxRetries: 0 });
  assert.equal(whole.text, ALPHABET);
  const stream = streamText({ model, prompt: 'script:alphabet', maxRetries: 0 });
  let text = '';
  for await (const part of stream.textStream) text += part;
  assert.equal(text, ALPHABET);
  assert.equal(await stream.finishReason, 'stop');
});

test('ai: tools', async () => {
  const call = {
    model: provider(PAGODA_URL)('scripted'), prompt: 'script:weather', maxRetries: 0,
    tools: { Weather: tool({ inputSchema: z.object({ city: z.string(), unit: z.string() }) }) },
  };
  const whole = await generateText(call);
  const streamed = await streamText(call).toolCalls;
  for (const [made] of [whole.toolCalls, streamed]) {
    assert.equal(made.toolName, 'Weather');
    assert.deepEqual(made.input, WEATHER);
  }
});

test('ai: an object of a schema', async () => {
  const { output } = await generateText({
    model: provider(PAGODA_MODEL_URL)('smollm2'), prompt: QUESTION[0].content, temperature: 0,
    maxOutputTokens: 200, maxRetries: 0, output: Output.object({ schema: Person }),
  });
  assert.ok(Person.parse(output));
});

test('ai: embeddings', { skip: !PAGODA_EMBEDDINGS_URL && 'no embedding model' }, async () => {
  const model = provider(PAGODA_EMBEDDINGS_URL).embeddingModel('smollm2');
  const { embeddings } = await embedMany({ model, values: ['x', 'y'], maxRetries: 0 });
  assert.deepEqual(embeddings.map((vector) => vector.length), [384, 384]);
});
