/** The part of the JSON Schema for editors that describes calls: HTTP, OpenAPI, platform functions, authentication. */

import type { Catalogue } from '../compile/compile-context.ts'
import { CLIENT_AUTHENTICATIONS, ENCODINGS, GRANTS } from '../components/authentication.ts'
import { UNSUPPORTED_CALLS } from '../tasks/call.ts'
import { HTTP_OUTPUTS, METHODS } from '../tasks/call-http.ts'
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

const USE = text('The name of a secret under `use.secrets` that has these properties.')

/** The properties of a scheme, or the secret that has them. */
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
  ...mapping('The OAuth 2 client that asks for the token.', {
    id: text('The id of the client.'),
    secret: text('The secret of the client.'),
    assertion: text('A signed JWT that stands for the client.'),
    authentication: choice('How the client says who it is.', CLIENT_AUTHENTICATIONS, 'client_secret_post'),
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
    'The URI of whoever gives out tokens.',
    { type: 'string', pattern: '^[Hh][Tt][Tt][Pp][Ss]?://\\S+$' },
    EXPRESSION,
  ),
  grant: choice('The grant by which a token is asked for.', GRANTS),
  client: CLIENT,
  request: mapping('How a token is asked for.', {
    encoding: choice('The media type of the request.', ENCODINGS, ENCODINGS[0]),
  }),
  issuers: ref('strings', 'Who may have issued the token.'),
  scopes: ref('strings', 'The scopes that are asked for.'),
  audiences: ref('strings', 'Whom the token is for.'),
  ...PASSWORD,
  subject: TOKEN('The token of the party on whose behalf it is asked.'),
  actor: TOKEN('The token of the party that acts.'),
}

const ENDPOINTS = mapping('Paths of the authority.', {
  token: text('Where tokens are asked for.', { default: '/oauth2/token' }),
  revocation: text('Where tokens are revoked.', { default: '/oauth2/revoke' }),
  introspection: text('Where tokens are looked into.', { default: '/oauth2/introspect' }),
})

/** The grant `password` requires both credentials. */
const withPassword = (one: Schema): Schema => ({
  ...one,
  ...when(
    { properties: { grant: { const: 'password' } }, required: ['grant'] },
    { required: ['username', 'password'] },
  ),
})

/** Options for the response. */
const RESPONSE_OPTIONS: Readonly<Record<string, Schema>> = {
  output: either(
    'What the task yields: the content, the whole response, or the bytes in base64.',
    { enum: HTTP_OUTPUTS, default: 'content' },
    EXPRESSION,
  ),
  redirect: either(
    'Whether a redirect (300 to 399) is an answer, not an error.',
    { type: 'boolean', default: false },
    EXPRESSION,
  ),
}

export const CALLS: Readonly<Record<string, Schema>> = {
  policy: {
    ...mapping('How a call says who it is: one scheme.', {
      basic: scheme('Name and password (RFC 7617).', PASSWORD, ['username', 'password']),
      bearer: scheme('A token (RFC 6750).', { token: text('The token.') }, ['token']),
      digest: scheme('Name and password, by digest (RFC 7616).', PASSWORD, ['username', 'password']),
      oauth2: withPassword(
        scheme('A token by OAuth 2.', { ...OAUTH2, endpoints: ENDPOINTS }, ['authority', 'grant']),
      ),
      oidc: withPassword(scheme('A token by OpenID Connect.', OAUTH2, ['authority', 'grant'])),
    }),
    minProperties: 1,
    maxProperties: 1,
  },
  authentication: either(
    'How the call says who it is.',
    ref('policy'),
    mappingRequiring('A policy by its name.', ['use'], {
      use: text('The name of a policy under `use.authentications`.'),
    }),
  ),
  endpoint: either(
    'Where the request goes.',
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
    ...RESPONSE_OPTIONS,
  }),
  openapi: mappingRequiring('An operation of an OpenAPI document.', ['document', 'operationId'], {
    document: mappingRequiring('Where the document is.', ['endpoint'], {
      name: text('What it is called.'),
      endpoint: ref('endpoint'),
    }),
    operationId: text('The id of the operation.'),
    parameters: pairs('Parameters by their names.'),
    authentication: ref('authentication'),
    ...RESPONSE_OPTIONS,
  }),
  functionArguments: named('Arguments by their names.', ref('filter')),
}

/** The task types of `call`: HTTP, OpenAPI, each function of the catalogue, and functions under `use`. */
export function callTasks(catalogue: Catalogue): readonly TaskKeys[] {
  const names = Object.keys(catalogue)
  const http = { const: 'http', description: 'Sends an HTTP request.' }
  const openapi = { const: 'openapi', description: 'Calls an operation of an OpenAPI document.' }
  const own = {
    description:
      'A function under `use.functions`, or of the catalogue by its full name: name:version@catalog.',
    type: 'string',
    not: { enum: ['http', 'openapi', ...UNSUPPORTED_CALLS, ...names] },
  }
  return [
    { keys: { call: http, with: ref('http') }, required: ['call', 'with'] },
    { keys: { call: openapi, with: ref('openapi') }, required: ['call', 'with'] },
    ...names.map((name) => callOf(name, catalogue)),
    { keys: { call: own, with: ref('functionArguments') }, required: ['call'] },
  ]
}

function callOf(name: string, catalogue: Catalogue): TaskKeys {
  const { description = '', required = [], optional = [] } = catalogue[name] ?? {}
  const properties = Object.fromEntries([...required, ...optional].map((key) => [key, ref('filter')]))
  const keys = {
    call: { const: name, description: `${description}.` },
    with: mappingRequiring('Arguments by their names.', required, properties),
  }
  return { keys, required: required.length > 0 ? ['call', 'with'] : ['call'] }
}
