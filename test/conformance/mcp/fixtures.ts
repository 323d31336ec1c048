/** The hosted server that the official conformance suites expect: its functions, tools, prompts and resources. */

/** A red dot of one pixel, and a moment of silence. */
const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=='
const WAV = 'UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAAAAA=='

const image = { type: 'image', data: PNG, mimeType: 'image/png' }
const resource = (uri: string, text: string) => ({
  type: 'resource',
  resource: { uri, mimeType: 'text/plain', text },
})
const text = (words: string) => ({ type: 'text', text: words })

const returns = (content: unknown[], isError = false) =>
  `export default () => (${JSON.stringify({ content, ...(isError && { isError }) })})`

/** By the name of the tool; functions have hyphens. */
export const FUNCTIONS: Readonly<Record<string, string>> = {
  test_simple_text: returns([text('This is a simple text response for testing.')]),
  test_image_content: returns([image]),
  test_audio_content: returns([{ type: 'audio', data: WAV, mimeType: 'audio/wav' }]),
  test_embedded_resource: returns([
    resource('test://embedded-resource', 'This is an embedded resource content.'),
  ]),
  test_multiple_content_types: returns([
    text('Multiple content types test:'),
    image,
    resource('test://mixed-content-resource', '{"test":"data","value":123}'),
  ]),
  test_error_handling: returns([text('This tool intentionally returns an error for testing')], true),
  json_schema_2020_12_tool: `export const tool = { input: {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    type: 'object',
    $defs: { address: { type: 'object', properties: { street: { type: 'string' }, city: { type: 'string' } } } },
    properties: { name: { type: 'string' }, address: { $ref: '#/$defs/address' } },
    additionalProperties: false,
  } }
  export default (input) => ({ content: [{ type: 'text', text: JSON.stringify(input) }] })`,
}

export const PROMPTS = {
  test_simple_prompt: {
    description: 'A prompt without arguments',
    messages: [{ role: 'user', content: text('This is a simple prompt for testing.') }],
  },
  test_prompt_with_arguments: {
    description: 'A prompt with two arguments',
    arguments: [
      { name: 'arg1', description: 'First argument', required: true, values: ['one', 'other', 'test'] },
      { name: 'arg2', description: 'Second argument', required: true },
    ],
    messages: [{ role: 'user', content: text("Prompt with arguments: arg1='{{arg1}}', arg2='{{arg2}}'") }],
  },
  test_prompt_with_embedded_resource: {
    description: 'A prompt with a resource',
    arguments: [{ name: 'resourceUri', description: 'URI of the resource', required: true }],
    messages: [
      { role: 'user', content: resource('{{resourceUri}}', 'Embedded resource content for testing.') },
      { role: 'user', content: text('Please process the embedded resource above.') },
    ],
  },
  test_prompt_with_image: {
    description: 'A prompt with an image',
    messages: [
      { role: 'user', content: image },
      { role: 'user', content: text('Please analyze the image above.') },
    ],
  },
}

export const RESOURCES = {
  static_text: {
    uri: 'test://static-text',
    mime_type: 'text/plain',
    text: 'This is the content of the static text resource.',
  },
  static_binary: { uri: 'test://static-binary', mime_type: 'image/png', blob: PNG },
  template: {
    uri: 'test://template/{id}/data',
    mime_type: 'application/json',
    text: '{"id":"{{id}}","templateTest":true,"data":"Data for ID: {{id}}"}',
  },
  watched: { uri: 'test://watched-resource', mime_type: 'text/plain', text: 'Watched resource content' },
}
