/** The part of the JSON Schema for editors that describes calls: HTTP, OpenAPI, MCP, platform functions, authentication. */

import type { Catalogue } from '../compile/compile-context.ts'
import { CLIENT_AUTHENTICATIONS, ENCODINGS, GRANTS } from '../components/authentication.ts'
import { UNSUPPORTED_CALLS } from '../tasks/call.ts'
import { DELIVERIES, HTTP_ERRORS, HTTP_OUTPUTS, METHODS } from '../tasks/call-http.ts'
import { MCP, MCP_NAME } from '../tasks/call-mcp.ts'
import {
  EXPRESSION,
  either,
  mapping,
  mappingRequiring,
  named,
  ref,
  type Schema,
  type TaskKeys,
  text,
  when,
} from './values.ts'

const lettersOf = (method: string) =>
  method.replaceAll(/./g, (letter) => `[${letter}${letter.toLowerCase()}]`)

const URI = text('An absolute http or https URI; {name} in it is a field of the input.', {
  pattern: '^[Hh][Tt][Tt][Pp][Ss]?://(?:[^{}\\s]|\\{[A-Za-z0-9_][A-Za-z0-9_.-]*\\})+$',
  examples: ['https://api.example.com/pets/{petId}'],
})

const pairs = (description: string) =>
  either(description, named('Names and values.', ref('filter')), EXPRESSION)

const USE = text('The name of a secret under `use.secrets` that contains these properties.')

/** The properties of a scheme, or the name of a secret that contains them. */
const scheme = (
  description: string,
  properties: Readonly<Record<string, Schema>>,
  required: readonly string[],
) =>
  either(
    description,
    mappingRequiring('The properties themselves.', required, properties),
    mappingRequiring('A secret.', ['use'], { use: USE }),
  )

const PASSWORD = { username: text('The name of the user.'), password: text('The password.') }

const choice = (description: string, words: readonly string[], fallback?: string): Schema =>
  either(description, { enum: [...words], ...(fallback !== undefined && { default: fallback }) }, EXPRESSION)

const TOKEN = (description: string) =>
  mappingRequiring(description, ['token', 'type'], {
    token: text('The token.'),
    type: text('The type of the token.'),
  })

const CLIENT = {
  ...mapping('The OAuth 2 client that requests the token.', {
    id: text('The id of the client.'),
    secret: text('The secret of the client.'),
    assertion: text('A signed JWT that authenticates the client.'),
    authentication: choice(
      'The method by which the client authenticates.',
      CLIENT_AUTHENTICATIONS,
      'client_secret_post',
    ),
  }),
  ...when(
    { properties: { authentication: { const: 'none' } }, required: ['authentication'] },
    {},
    {
      required: ['id'],
      ...when(
        { properties: { authentication: { const: 'private_key_jwt' } }, required: ['authentication'] },
        { required: ['assertion'] },
      ),
    },
  ),
}

const OAUTH2 = {
  authority: either(
    'The URI of the authority that issues tokens.',
    { type: 'string', pattern: '^[Hh][Tt][Tt][Pp][Ss]?://\\S+$' },
    EXPRESSION,
  ),
  grant: choice('The OAuth 2 grant type.', GRANTS),
  client: CLIENT,
  request: mapping('The token request.', {
    encoding: choice('The media type of the request.', ENCODINGS, ENCODINGS[0]),
  }),
  issuers: ref('strings', 'Issuers whose tokens are accepted.'),
  scopes: ref('strings', 'The requested scopes.'),
  audiences: ref('strings', 'The audiences of the token.'),
  ...PASSWORD,
  subject: TOKEN('The token of the party on whose behalf the token is requested.'),
  actor: TOKEN('The token of the party that acts.'),
}

const ENDPOINTS = mapping('Paths of the authority.', {
  token: text('The token endpoint.', { default: '/oauth2/token' }),
  revocation: text('The revocation endpoint.', { default: '/oauth2/revoke' }),
  introspection: text('The introspection endpoint.', { default: '/oauth2/introspect' }),
})

/** The grant `password` requires both credentials. */
const withPassword = (one: Schema): Schema => ({
  ...one,
  ...when(
    { properties: { grant: { const: 'password' } }, required: ['grant'] },
    { required: ['username', 'password'] },
  ),
})

/** Options of requests. */
const OPTIONS: Readonly<Record<string, Schema>> = {
  output: either(
    'The output of the task: the content, the whole response, or the bytes in base64.',
    { enum: HTTP_OUTPUTS, default: 'content' },
    EXPRESSION,
  ),
  redirect: either(
    'If true, a redirect (300 to 399) is an output, not an error.',
    { type: 'boolean', default: false },
    EXPRESSION,
  ),
  errors: choice(
    'The handling of error responses. `data`: a response with any status is an output; needs `output: response`.',
    HTTP_ERRORS,
    'fault',
  ),
  delivery: choice(
    'The delivery guarantee if the worker that sends the request is lost. Default: safe methods are repeated, others are not.',
    DELIVERIES,
  ),
}

const TARGET = mappingRequiring('The object that the response is stored as.', ['bucket', 'key'], {
  bucket: text('The bucket of the workspace.'),
  key: text('The key of the object.'),
  content_type: text('The media type of the object. Default: that of the response.'),
})

export const CALLS: Readonly<Record<string, Schema>> = {
  policy: {
    ...mapping('The authentication of a call, by one scheme.', {
      basic: scheme('Name and password (RFC 7617).', PASSWORD, ['username', 'password']),
      bearer: scheme('A bearer token (RFC 6750).', { token: text('The token.') }, ['token']),
      digest: scheme('Name and password, by digest access authentication (RFC 7616).', PASSWORD, [
        'username',
        'password',
      ]),
      oauth2: withPassword(
        scheme('A token by OAuth 2.', { ...OAUTH2, endpoints: ENDPOINTS }, ['authority', 'grant']),
      ),
      oidc: withPassword(scheme('A token by OpenID Connect.', OAUTH2, ['authority', 'grant'])),
    }),
    minProperties: 1,
    maxProperties: 1,
  },
  authentication: either(
    'The authentication of the call.',
    ref('policy'),
    mappingRequiring('A policy by its name.', ['use'], {
      use: text('The name of a policy under `use.authentications`.'),
    }),
  ),
  endpoint: either(
    'The URI of the request.',
    URI,
    EXPRESSION,
    mappingRequiring('The URI with its authentication.', ['uri'], {
      uri: either('The URI.', URI, EXPRESSION),
      authentication: ref('authentication'),
    }),
  ),
  http: mappingRequiring('An HTTP request.', ['method', 'endpoint'], {
    method: either(
      'The method of the request.',
      { enum: METHODS },
      { type: 'string', pattern: `^(?:${METHODS.map(lettersOf).join('|')})$` },
      EXPRESSION,
    ),
    endpoint: ref('endpoint'),
    headers: pairs('Headers of the request.'),
    query: pairs('Parameters of the query.'),
    body: ref('filter', 'The body of the request.'),
    ...OPTIONS,
    output: either(
      'The output of the task: the content, the whole response, the bytes in base64, or the object that the response is stored as.',
      { enum: HTTP_OUTPUTS, default: 'content' },
      EXPRESSION,
      mappingRequiring('The object.', ['object'], { object: TARGET }),
    ),
  }),
  openapi: mappingRequiring('An operation of an OpenAPI document.', ['document', 'operationId'], {
    document: mappingRequiring('The OpenAPI document.', ['endpoint'], {
      name: text('The name of the document.'),
      endpoint: ref('endpoint'),
    }),
    operationId: text('The id of the operation.'),
    parameters: pairs('Parameters, by name.'),
    authentication: ref('authentication'),
    ...OPTIONS,
  }),
  mcp: mappingRequiring('A tool of an MCP server of the workspace.', ['server', 'tool'], {
    server: text('The slug or the id of the server.', { pattern: MCP_NAME }),
    tool: text('The name of the tool, as the server lists it.', { pattern: MCP_NAME }),
    arguments: pairs('Arguments of the tool, by name.'),
  }),
  functionArguments: named('Arguments, by name.', ref('filter')),
}

const awaitCallback = mappingRequiring(
  'Completes the call when its one-time URL, `$callback.url` in `with`, is posted to: the JSON body is the output.',
  ['timeout'],
  { timeout: ref('duration', 'The maximum time from the start of the task to the callback.') },
)

/** The task types of `call`: HTTP, OpenAPI, MCP, each function of the catalogue, and functions under `use`. */
export function callTasks(catalogue: Catalogue): readonly TaskKeys[] {
  const names = Object.keys(catalogue)
  const http = { const: 'http', description: 'Sends an HTTP request.' }
  const openapi = { const: 'openapi', description: 'Calls an operation of an OpenAPI document.' }
  const mcp = { const: MCP, description: 'Calls a tool of an MCP server of the workspace.' }
  const own = {
    description:
      'A function under `use.functions`, or of the catalogue by its full name: name:version@catalog.',
    type: 'string',
    not: { enum: ['http', 'openapi', MCP, ...UNSUPPORTED_CALLS, ...names] },
  }
  return [
    { keys: { call: http, with: ref('http'), awaitCallback }, required: ['call', 'with'] },
    { keys: { call: openapi, with: ref('openapi'), awaitCallback }, required: ['call', 'with'] },
    { keys: { call: mcp, with: ref('mcp'), awaitCallback }, required: ['call', 'with'] },
    ...names.map((name) => callOf(name, catalogue)),
    { keys: { call: own, with: ref('functionArguments') }, required: ['call'] },
  ]
}

function callOf(name: string, catalogue: Catalogue): TaskKeys {
  const { description = '', required = [], optional = [] } = catalogue[name] ?? {}
  const properties = Object.fromEntries([...required, ...optional].map((key) => [key, ref('filter')]))
  const keys = {
    call: { const: name, description: `${description}.` },
    with: mappingRequiring('Arguments, by name.', required, properties),
    awaitCallback,
  }
  return { keys, required: required.length > 0 ? ['call', 'with'] : ['call'] }
}
