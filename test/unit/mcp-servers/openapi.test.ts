/** OpenAPI documents as sources: the tools that are read from them, and bounds for hostile documents. */

import { describe, expect, test } from 'vitest'
import type { Definition } from '../../../src/features/mcp-servers/remote/definitions.ts'
import { readOpenApi } from '../../../src/features/mcp-servers/remote/openapi/read-tools.ts'
import { threadMs } from '../../support/thread-time.ts'

type Fields = Readonly<Record<string, unknown>>

const URL_OF = 'https://docs.example/api/openapi.json'

function read(document: object | string, more: object = {}) {
  const text = typeof document === 'string' ? document : JSON.stringify(document)
  return readOpenApi({ text, url: URL_OF, base_url: null, headers: [], ...more })
}

function pinnedOf(document: object | string, more: object = {}) {
  const made = read(document, more)
  if ('fault' in made) throw new Error(made.fault)
  return { ...made.pinned, tools: JSON.parse(made.pinned.json) as Definition[] }
}

const faultOf = (document: object | string, more: object = {}) =>
  (read(document, more) as { fault: string }).fault

/** A document with one operation, `POST /things` unless it says otherwise. */
const one = (operation: Fields, more: Fields = {}, at = { path: '/things', method: 'post' }) => ({
  openapi: '3.1.0',
  servers: [{ url: '/v1' }],
  paths: { [at.path]: { [at.method]: { operationId: 'op', ...operation } } },
  ...more,
})

const toolOf = (document: object | string, more: object = {}) => {
  const [tool] = pinnedOf(document, more).tools
  if (tool === undefined) throw new Error('no tool')
  return tool
}

const argumentsOf = (operation: Fields, more: Fields = {}) =>
  toolOf(one(operation, more)).input_schema['properties'] as Record<string, Fields>

const body = (schema: unknown, required = true) => ({
  requestBody: { required, content: { 'application/json': { schema } } },
})
const bodyArguments = (schema: unknown, more: Fields = {}) => argumentsOf(body(schema), more)

describe('operations', () => {
  test('path, query, header and body: one flat closed list, with the texts of the document', () => {
    const tool = toolOf(
      one(
        {
          summary: 'Change a pet',
          description: 'Changes what is given.',
          parameters: [
            { name: 'dry-run', in: 'query', schema: { type: 'boolean', default: false } },
            { name: 'If-Match', in: 'header', description: 'ETag.', schema: { type: 'string' } },
            { name: 'session', in: 'cookie', schema: { type: 'string' } },
          ],
          ...body({
            type: 'object',
            properties: { name: { type: 'string', maxLength: 9 } },
            required: ['name'],
          }),
        },
        {},
        { path: '/pets/{petId}', method: 'put' },
      ),
    )
    expect(tool).toMatchObject({
      key: 'op',
      name: 'op',
      title: 'Change a pet',
      description: 'Changes what is given.',
      annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: true, openWorldHint: true },
      input_schema: {
        type: 'object',
        properties: {
          petId: { type: 'string' },
          'dry-run': { type: 'boolean', default: false },
          'If-Match': { type: 'string', description: 'ETag.' },
          name: { type: 'string', maxLength: 9 },
        },
        required: ['petId', 'name'],
        additionalProperties: false,
      },
      call: { server: 'https://docs.example/v1', method: 'PUT', path: '/pets/{petId}' },
    })
    expect(tool.input_schema['properties']).not.toHaveProperty('session')
  })

  test.each([
    ['get', { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: true }],
    ['head', { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: true }],
    ['post', { readOnlyHint: false, destructiveHint: true, idempotentHint: false, openWorldHint: true }],
    ['delete', { readOnlyHint: false, destructiveHint: true, idempotentHint: true, openWorldHint: true }],
  ])('%s: its effect', (method, annotations) => {
    expect(toolOf(one({}, {}, { path: '/x', method })).annotations).toEqual(annotations)
  })

  test('without operationId, with the same one twice, with names that differ in case: each is a tool of its own', () => {
    const paths = {
      '/a/{id}': { get: {}, delete: { operationId: 'same' } },
      '/b': { get: { operationId: 'same' }, post: { operationId: 'SAME' } },
    }
    const { tools } = pinnedOf({ openapi: '3.0.3', paths })
    expect(tools.map(({ key }) => key)).toEqual(['GET /a/{id}', 'same', 'GET /b', 'SAME'])
    expect(new Set(tools.map(({ name }) => name.toLowerCase())).size).toBe(4)
    expect(tools[0]?.name).toBe('get_a_id')
  })

  test('parameters of one name in several places: renamed by their place, always the same way', () => {
    const at = (place: string) => ({ name: 'id', in: place, required: true, schema: { type: 'string' } })
    const operation = {
      parameters: [at('header'), at('query'), at('path')],
      ...body({
        type: 'object',
        properties: { id: {}, id_body: {}, 'a b': {}, 'a/b': {}, ['__proto__']: {} },
      }),
    }
    const text = JSON.stringify(one(operation, {}, { path: '/x/{id}', method: 'post' })).replace(
      '"a/b":{}',
      '"a/b":{},"__proto__":{}',
    )
    const tool = toolOf(text)
    expect(Object.keys(tool.input_schema['properties'] as object)).toEqual([
      'id',
      'id_query',
      'id_header',
      'id_body',
      'id_body_body',
      'a_b',
      'a_b_body',
      'proto',
    ])
    expect(tool.call).toMatchObject({
      parameters: [
        { argument: 'id', name: 'id', in: 'path' },
        { argument: 'id_query', name: 'id', in: 'query' },
        { argument: 'id_header', name: 'id', in: 'header' },
      ],
      body: { members: expect.arrayContaining([{ argument: 'id_body', name: 'id' }]) },
    })
    expect(toolOf(text)).toEqual(tool)
  })

  test('headers that the source or the connection sets: no arguments', () => {
    const names = ['X-Api-Key', 'Host', 'Cookie', 'Content-Length', 'Transfer-Encoding', 'Authorization']
    const more = ['X-Forwarded-For', 'Proxy-Authorization', 'a\r\nb', 'X-Free']
    const parameters = [...names, ...more].map((name) => ({ name, in: 'header', required: true, schema: {} }))
    const tool = toolOf(one({ parameters }), { base_url: 'https://api.example', headers: ['x-api-key'] })
    expect(Object.keys(tool.input_schema['properties'] as object)).toEqual(['X-Free'])
  })

  test('body that is no object, or a form: one argument, or one for each field', () => {
    expect(bodyArguments({ type: 'array', items: { type: 'string' } })).toEqual({
      body: { type: 'array', items: { type: 'string' } },
    })
    const content = (type: string) => ({
      requestBody: {
        required: true,
        content: { [type]: { schema: { properties: { a: { type: 'string' } } } } },
      },
    })
    expect(argumentsOf(content('application/x-www-form-urlencoded'))).toHaveProperty('a')
  })
})

describe('servers', () => {
  const at = (servers: unknown[], more: object = {}) => read(one({}, { servers }), more)

  test('first server with the defaults of its variables, relative to the document; `base_url` goes before it', () => {
    const servers = [
      { url: '/{version}', variables: { version: { default: 'v3' } } },
      { url: 'https://b.example' },
    ]
    expect(toolOf(one({}, { servers })).call['server']).toBe('https://docs.example/v3')
    const base_url = 'https://c.example/x'
    expect(toolOf(one({}, { servers }), { base_url }).call['server']).toBe(base_url)
  })

  test('server of another origin: gets the headers of the source only if the admin confirms it (T33)', () => {
    const servers = [{ url: 'https://evil.example' }]
    expect(at(servers)).toHaveProperty('pinned')
    expect(at(servers, { headers: ['authorization'] })).toEqual({
      fault: expect.stringContaining('`base_url`'),
    })
    const own = { ...one({ servers }), servers: [{ url: '/v1' }] }
    expect(faultOf(own)).toContain('It has a server of its own, https://evil.example')
  })

  test.each(['file:///etc/passwd', 'javascript:alert(1)', 'https://a:b@c.example', 'http://'])(
    '%s: refused',
    (url) => {
      expect(at([{ url }])).toEqual({ fault: expect.stringContaining('`base_url`') })
    },
  )
})

describe('schemas', () => {
  test.each([
    [
      '3.0 nullable',
      { type: 'string', nullable: true, enum: ['a'] },
      { type: ['string', 'null'], enum: ['a', null] },
    ],
    ['3.1 types', { type: ['integer', 'null'], const: 3 }, { type: ['integer', 'null'], enum: [3] }],
    [
      '3.0 bounds',
      { type: 'number', minimum: 1, exclusiveMinimum: true },
      { type: 'number', minimum: 1, exclusiveMinimum: 1 },
    ],
    ['3.1 bounds', { type: 'number', exclusiveMaximum: 5 }, { type: 'number', exclusiveMaximum: 5 }],
    [
      'reference of 3.0',
      { allOf: [{ $ref: '#/components/schemas/Status' }], description: 'Now.' },
      { type: 'string', enum: ['on', 'off'], description: 'Now.' },
    ],
    [
      'oneOf',
      { oneOf: [{ type: 'string' }, { type: 'integer' }] },
      { anyOf: [{ type: 'string' }, { type: 'integer' }] },
    ],
    ['costly pattern', { type: 'string', pattern: '(a+)+\\1$' }, { type: 'string' }],
    ['unknown format', { type: 'integer', format: 'int64', xml: {}, example: 1 }, { type: 'integer' }],
    ['hostile values', { type: 5, enum: {}, minLength: -1, required: 'x', properties: 3, items: [] }, {}],
  ])('%s', (_what, schema, expected) => {
    const components = { schemas: { Status: { type: 'string', enum: ['on', 'off'] } } }
    const properties = { a: schema, b: { type: 'string' } }
    expect(bodyArguments({ type: 'object', properties }, { components })['a']).toEqual(expected)
  })

  test('allOf: the members of all parts; readOnly members are left out', () => {
    const base = {
      type: 'object',
      properties: { id: { type: 'string', readOnly: true }, kind: {} },
      required: ['id', 'kind'],
    }
    const schema = {
      allOf: [{ $ref: '#/components/schemas/Base' }, { properties: { name: {} }, required: ['name'] }],
    }
    const tool = toolOf(one(body(schema), { components: { schemas: { Base: base } } }))
    expect(Object.keys(tool.input_schema['properties'] as object).sort()).toEqual(['kind', 'name'])
    expect([...(tool.input_schema['required'] as string[])].sort()).toEqual(['kind', 'name'])
  })

  test('schema that refers to itself: cut where it repeats', () => {
    const Node = {
      type: 'object',
      properties: {
        name: { type: 'string' },
        parent: { $ref: '#/components/schemas/Node' },
        children: { type: 'array', items: { $ref: '#/components/schemas/Node' } },
      },
    }
    const { name, parent, children } = bodyArguments(
      { $ref: '#/components/schemas/Node' },
      { components: { schemas: { Node } } },
    )
    expect(name).toEqual({ type: 'string' })
    expect(parent).toEqual({ type: 'object', description: 'Another Node.' })
    expect(children).toEqual({ type: 'array', items: { type: 'object', description: 'Another Node.' } })
  })

  test.each([
    ['https://evil.example/schema.json#/A', 'leaves the document'],
    ['other.yaml#/A', 'leaves the document'],
    ['file:///etc/passwd', 'leaves the document'],
    ['#/components/schemas/Missing', 'leads to nothing'],
    ['#/components/schemas/A', 'leads to itself'],
    ['#/__proto__/polluted', 'leads to nothing'],
    [`#/${'a'.repeat(2_000)}`, 'is too long'],
  ])('$ref %s: the operation is no tool, and nothing is fetched (T31)', ($ref, why) => {
    const schemas = { A: { $ref: '#/components/schemas/B' }, B: { $ref: '#/components/schemas/A' } }
    expect(faultOf(one(body({ properties: { a: { $ref } } }), { components: { schemas } }))).toContain(why)
  })

  test('result: types alone of an object that is small; nothing otherwise', () => {
    const of = (schema: unknown, more: Fields = {}) => {
      const responses = { 200: { content: { 'application/json': { schema } } }, 404: {}, ...more }
      return toolOf(one({ responses })).output_schema
    }
    const pet = {
      type: 'object',
      required: ['id'],
      properties: { id: { type: 'integer', minimum: 1 }, token: { type: 'string', writeOnly: true } },
    }
    expect(of(pet)).toEqual({ type: 'object', properties: { id: { type: 'integer' } } })
    expect(of({ type: 'array', items: pet })).toBeUndefined()
    expect(of({ oneOf: [pet, {}] })).toBeUndefined()
    expect(of({ $ref: 'https://evil.example/x' })).toBeUndefined()
    expect(of(pet, { 204: {} })).toBeUndefined()
    const deep = (n: number): Fields => ({ type: 'object', properties: n === 0 ? {} : { a: deep(n - 1) } })
    expect(of(deep(20))).toBeUndefined()
  })
})

describe('hostile documents', () => {
  test.each([
    ['Swagger 2', { swagger: '2.0', paths: {} }, 'is Swagger 2.0; OpenAPI 3.0 and 3.1'],
    ['a later version', { openapi: '4.0.0', paths: {} }, 'is OpenAPI 4.0.0'],
    ['no version', { paths: {} }, 'names no version'],
    ['no operation', { openapi: '3.0.0', paths: {} }, 'has no operation'],
    ['no object', '[1]', 'is no object'],
    ['half a document', '{"openapi": "3.0.0",', 'is not valid JSON'],
    ['invalid YAML', 'openapi: "3.0', 'is not valid YAML'],
    ['paths of another type', { openapi: '3.0.0', paths: [['a']] }, 'has no operation'],
  ])('%s: says what is wrong', (_what, document, expected) => {
    expect(faultOf(document)).toContain(expected)
  })

  test('YAML: read like JSON; aliases that expand, or lead back, are refused', () => {
    const yaml = 'openapi: 3.0.3\npaths:\n  /x:\n    get: { operationId: op, summary: "An X" }\n'
    expect(toolOf(yaml)).toMatchObject({ key: 'op', title: 'An X' })
    const rows = Array.from({ length: 12 }, (_, n) => `a${n + 1}: &a${n + 1} [${`*a${n},`.repeat(9)}]`)
    const laughs = `openapi: 3.0.3\na0: &a0 [lol]\n${rows.join('\n')}\n`
    expect(faultOf(laughs)).toContain('not valid YAML')
    expect(faultOf(`openapi: 3.0.3\npaths: &p { /x: *p }\n`)).toMatch(/not valid YAML|no operation/)
  })

  test('names and texts: NUL and half surrogates are replaced, hidden characters stay for the check of texts', () => {
    const paths = {
      '/x\u0000': { get: { operationId: 'a\u0000\ud800\u200b', summary: 's\u202e', description: 'd\u0000' } },
    }
    const bad = '\u0000\udfff'
    const parameters = [
      { name: bad, in: 'query', style: bad, schema: { default: bad, enum: [bad], pattern: bad } },
    ]
    const more = {
      [`/y/{${bad}}`]: {
        post: { parameters, ...body({ required: [bad], properties: { [bad]: { format: bad } } }) },
      },
      '/z': { get: { requestBody: { $ref: `#/${bad}` } } },
    }
    const { tools, json, skipped } = pinnedOf({ openapi: '3.0.0', paths: { ...paths, ...more } })
    expect(skipped).toHaveLength(1)
    expect(JSON.stringify(skipped)).not.toMatch(/\\u0000|\\ud[89a-f]/i)
    expect(json).not.toMatch(/\\u0000|\\ud[89a-f]/i)
    expect(tools[0]).toMatchObject({
      key: 'a\ufffd\ufffd\u200b',
      name: 'a___',
      title: 's\u202e',
      description: 'd\ufffd',
    })
  })

  const reference = (name: string) => ({ $ref: `#/components/schemas/${name}` })

  test('3,000 operations that share large cyclic schemas: read within 3 s of CPU time, in at most 4 MiB', () => {
    const names = Array.from({ length: 40 }, (_, n) => `S${n}`)
    const schemas = Object.fromEntries(
      names.map((name) => [
        name,
        { type: 'object', properties: Object.fromEntries(names.map((other) => [other, reference(other)])) },
      ]),
    )
    const operation = (n: number) => ({ post: { operationId: `op${n}`, ...body(reference(`S${n % 40}`)) } })
    const paths = Object.fromEntries(Array.from({ length: 3_000 }, (_, n) => [`/x${n}/{id}`, operation(n)]))
    const beforeMs = threadMs()
    const { json, tools, hash } = pinnedOf({ openapi: '3.1.0', paths, components: { schemas } })
    expect(threadMs() - beforeMs).toBeLessThan(3_000)
    expect(tools).toHaveLength(3_000)
    expect(json.length).toBeLessThan(4_194_304)
    expect(hash).toMatch(/^[0-9a-f]{64}$/)
    const more = { ...paths, '/y': { get: {} } }
    expect(faultOf({ openapi: '3.1.0', paths: more, components: { schemas } })).toContain(
      'more than 3000 operations',
    )
  })

  test('one schema of a thousand branches and levels: bounded', () => {
    const wide = { anyOf: Array.from({ length: 10_000 }, () => ({ type: 'string' })) }
    let deep: Fields = { type: 'string' }
    for (let n = 0; n < 1_000; n += 1) deep = { type: 'object', properties: { a: deep } }
    const many = {
      type: 'object',
      required: ['p4999'],
      properties: Object.fromEntries(Array.from({ length: 5_000 }, (_, n) => [`p${n}`, {}])),
    }
    const schema = toolOf(one(body({ type: 'object', properties: { wide, deep, many } }))).input_schema
    expect(JSON.stringify(schema).length).toBeLessThan(20_000)
    const properties = schema['properties'] as Record<string, Fields>
    expect(Object.keys(properties)).toEqual(['wide', 'deep', 'many'])
    expect(Object.keys(properties['many']?.['properties'] as object)[0]).toBe('p4999')
  })
})
