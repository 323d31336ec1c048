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

const form = (message: string, properties: Readonly<Record<string, object>>) => ({
  method: 'elicitation/create',
  params: { message, requestedSchema: { type: 'object', properties, required: Object.keys(properties) } },
})
const elicitation = (message: string, field: string, type = 'string') => form(message, { [field]: { type } })

const DEFAULTS = {
  name: { type: 'string', default: 'John Doe' },
  age: { type: 'integer', default: 30 },
  score: { type: 'number', default: 95.5 },
  status: { type: 'string', enum: ['active', 'inactive', 'pending'], default: 'active' },
  verified: { type: 'boolean', default: true },
}
const titled = (names: readonly string[]) => names.map((name) => ({ const: name, title: name.toUpperCase() }))
const ENUMS = {
  untitledSingle: { type: 'string', enum: ['option1', 'option2', 'option3'] },
  titledSingle: { type: 'string', oneOf: titled(['value1', 'value2', 'value3']) },
  legacyEnum: { type: 'string', enum: ['opt1', 'opt2', 'opt3'], enumNames: ['One', 'Two', 'Three'] },
  untitledMulti: { type: 'array', items: { type: 'string', enum: ['option1', 'option2', 'option3'] } },
  titledMulti: { type: 'array', items: { anyOf: titled(['value1', 'value2', 'value3']) } },
}
const sampling = (question: string) => ({
  method: 'sampling/createMessage',
  params: { messages: [{ role: 'user', content: text(question) }], maxTokens: 100 },
})
const roots = { method: 'roots/list', params: {} }

/** A function that asks its client round by round, and returns a text when all has been answered. */
const asks = (rounds: readonly Readonly<Record<string, unknown>>[], done: string, argument = 'unused') => `
  export const input = { type: 'object', properties: { ${argument}: { type: 'string' } } }
  const rounds = ${JSON.stringify(rounds)}
  export default (input, { mcp = {} }) => {
    const answers = mcp.inputResponses ?? {}
    const round = Number(mcp.requestState ?? 0)
    const isAnswered = Object.keys(rounds[round]).every((name) => name in answers)
    const next = isAnswered ? round + 1 : round
    if (next === rounds.length) return { content: [{ type: 'text', text: ${JSON.stringify(done)} }] }
    return { resultType: 'input_required', inputRequests: rounds[next], requestState: String(next) }
  }`

const NAME = { user_name: elicitation('What is your name?', 'name') }

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
  test_input_required_result_elicitation: asks([NAME], 'Hello!'),
  test_input_required_result_sampling: asks(
    [{ capital_question: sampling('What is the capital of France?') }],
    'Paris.',
  ),
  test_input_required_result_list_roots: asks([{ client_roots: roots }], 'One root.'),
  test_input_required_result_request_state: asks(
    [{ confirm: elicitation('Please confirm', 'ok', 'boolean') }],
    'state-ok',
  ),
  test_input_required_result_multiple_inputs: asks(
    [{ ...NAME, greeting: sampling('Generate a greeting'), client_roots: roots }],
    'Hello!',
  ),
  test_input_required_result_multi_round: asks(
    [
      { step1: elicitation('Step 1: What is your name?', 'name') },
      { step2: elicitation('Step 2: What is your favorite color?', 'color') },
    ],
    'Two rounds.',
  ),
  test_input_required_result_tampered_state: asks([NAME], 'Hello!'),
  test_input_required_result_capabilities: `export default (input, { mcp }) => ({
    resultType: 'input_required',
    inputRequests: 'elicitation' in mcp.clientCapabilities
      ? ${JSON.stringify(NAME)}
      : ${JSON.stringify({ question: sampling('What is your name?') })},
  })`,
  test_missing_capability: asks([{ question: sampling('Anything?') }], 'Yes.'),
  test_streaming_elicitation: asks([NAME], 'Hello!'),
  test_logging_tool: returns([text('Nothing is logged.')]),
  test_sampling: asks([{ answer: sampling('Test prompt for sampling') }], 'LLM response: here.', 'prompt'),
  test_elicitation: asks(
    [{ form: form('Please enter your name', { username: { type: 'string' }, email: { type: 'string' } }) }],
    'User response: accepted.',
    'message',
  ),
  test_elicitation_sep1034_defaults: asks([{ form: form('Defaults', DEFAULTS) }], 'Elicitation completed.'),
  test_elicitation_sep1330_enums: asks([{ form: form('Enums', ENUMS) }], 'Elicitation completed.'),
  greet: `export const input = { type: 'object', properties: { name: { type: 'string' } } }
  export default ({ name }) => ({ content: [{ type: 'text', text: 'Hello, ' + name + '!' }] })`,
  json_schema_2020_12_tool: `export const input = {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    type: 'object',
    $defs: { address: { type: 'object', properties: { street: { type: 'string' }, city: { type: 'string' } } } },
    properties: {
      name: { type: 'string' },
      address: { $ref: '#/$defs/address' },
      contactMethod: { type: 'string', enum: ['phone', 'email'] },
      phone: { type: 'string' },
      email: { type: 'string' },
    },
    allOf: [{ anyOf: [{ required: ['phone'] }, { required: ['email'] }] }],
    if: { properties: { contactMethod: { const: 'phone' } }, required: ['contactMethod'] },
    then: { required: ['phone'] },
    else: { required: ['email'] },
    additionalProperties: false,
  }
  export default (input) => ({ content: [{ type: 'text', text: JSON.stringify(input) }] })`,
}

/** Tasks and input of flows, by the name of the tool. @param approver the subject of the suite's client */
export const flows = (approver: string): Readonly<Record<string, string>> => ({
  test_tool_with_progress: `
do:
  - one: { wait: { milliseconds: 700 } }
  - two: { wait: { milliseconds: 700 } }
  - three: { wait: { milliseconds: 700 } }`,
  test_tool_with_logging: `
do:
  - one: { wait: { milliseconds: 700 } }
  - two: { wait: { milliseconds: 700 } }
  - three: { wait: { milliseconds: 700 } }`,
  slow_compute: `
input:
  schema:
    document:
      type: object
      properties: { seconds: { type: integer }, label: { type: string } }
do:
  - compute: { wait: '\${ "PT\\(.seconds)S" }' }`,
  failing_job: `
do:
  - work: { wait: { seconds: 1 } }
  - fail: { raise: { error: { type: 'https://suite.example/failed', status: 500, title: It failed } } }`,
  confirm_delete: `
input:
  schema:
    document: { type: object, properties: { filename: { type: string } } }
do:
  - confirm: { approve: { title: 'Delete the file?', approvers: ['${approver}'], fourEyes: false } }`,
})

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
  test_input_required_result_prompt: {
    description: 'A prompt whose argument the client is asked for',
    arguments: [{ name: 'context', description: 'What context should the prompt use?', required: true }],
    messages: [{ role: 'user', content: text('Use this context: {{context}}') }],
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
