/** Bodies and cookies of OpenAPI operations: the arguments that they become, and those that make no tool. */

import { expect, test } from 'vitest'
import type { Definition } from '../../../src/features/mcp-servers/remote/definitions.ts'
import { readOpenApi } from '../../../src/features/mcp-servers/remote/openapi/read-tools.ts'

function read(operation: object, more: object = {}) {
  const document = {
    openapi: '3.1.0',
    servers: [{ url: '/v1' }],
    paths: { '/things': { post: { operationId: 'op', ...operation } } },
  }
  const url = 'https://docs.example/openapi.json'
  return readOpenApi({ text: JSON.stringify(document), url, base_url: null, headers: [], ...more })
}

/** The arguments of the only tool. */
function argumentsOf(operation: object, more: object = {}): unknown {
  const made = read(operation, more)
  if ('fault' in made) throw new Error(made.fault)
  const [tool] = JSON.parse(made.pinned.json) as Definition[]
  return tool?.input_schema['properties']
}

const faultOf = (operation: object) => (read(operation) as { fault: string }).fault
const body = (type: string, schema: object, required?: boolean) => ({
  requestBody: { content: { [type]: { schema } }, ...(required !== undefined && { required }) },
})
const BYTES = { type: 'string', description: 'Base64 of the bytes.' }
const FIELDS = { properties: { a: { type: 'string' } } }

test.each([
  ['application/x-www-form-urlencoded', { a: { type: 'string' } }],
  ['multipart/form-data', { a: { type: 'string' } }],
  ['text/plain; charset=utf-8', { body: { type: 'string' } }],
  ['application/yaml', { body: { type: 'string' } }],
  ['image/*', { body: BYTES }],
  ['application/pdf', { body: BYTES }],
])('body as %s: made of arguments, required or not', (type, expected) => {
  for (const required of [true, false, undefined])
    expect(argumentsOf(body(type, FIELDS, required))).toEqual(expected)
})

test.each([
  [{ type: 'string', format: 'binary' }, 'object'],
  [{ type: 'string', contentMediaType: 'image/png' }, 'object'],
  [{ type: 'array', items: { type: 'string', format: 'binary' } }, 'array'],
  [{ type: 'string', contentMediaType: 'image/png', contentEncoding: 'base64' }, 'string'],
  [{ type: 'string', format: 'byte' }, 'string'],
])('field %j of a form: an argument of type %s', (field, type) => {
  const schema = { type: 'object', properties: { photo: field } }
  expect(argumentsOf(body('multipart/form-data', schema))).toMatchObject({ photo: { type } })
})

test.each([[true], [false], [undefined]])(
  'body that arguments cannot make, required %s: no tool, and why',
  (required) => {
    for (const type of [
      'application/xml',
      'text/xml',
      'application/soap+xml; charset=utf-8',
      'multipart/mixed',
    ])
      expect(faultOf(body(type, FIELDS, required))).toContain(`It takes a body as ${type} alone.`)
    expect(faultOf(body('multipart/form-data', { type: 'object' }, required))).toContain(
      'It takes a form whose fields the document does not list.',
    )
  },
)

test('cookie that is required: no tool, unless the source sets it; one that is not required is never sent', () => {
  const cookie = (required: boolean) => ({
    parameters: [{ name: 'sid', in: 'cookie', required, schema: {} }],
  })
  expect(faultOf(cookie(true))).toContain('It needs the cookie sid: set it in `headers` of the source.')
  const more = { base_url: 'https://api.example', headers: ['cookie'] }
  expect([argumentsOf(cookie(false)), argumentsOf(cookie(true), more)]).toEqual([{}, {}])
})
