/**
 * OpenAPI operations: the request that arguments lead to in each version of the format, and what is rejected.
 */

import { ApplicationFailure } from '@temporalio/common'
import { describe, expect, test } from 'vitest'
import { operationOf } from '../../../src/activities/http/openapi-operation.ts'
import { requestOf } from '../../../src/activities/http/openapi-request.ts'
import { stopwatch } from '../../support/stopwatch.ts'

type Fields = Readonly<Record<string, unknown>>

const AT = new URL('https://docs.example/api/v3/openapi.json')

/** A document of OpenAPI 3.1 with one operation, `op`. */
function three(operation: Fields, path = '/things', more: Fields = {}): Fields {
  const paths = { [path]: { post: { operationId: 'op', ...operation } } }
  return { openapi: '3.1.0', servers: [{ url: 'https://api.example/v1' }], paths, ...more }
}

function two(operation: Fields, more: Fields = {}): Fields {
  const paths = { '/things': { post: { operationId: 'op', ...operation } } }
  return { swagger: '2.0', host: 'api.example', basePath: '/v2', paths, ...more }
}

function request(document: Fields, args: Fields = {}, url = AT) {
  return requestOf(operationOf(document, 'op', url), args)
}

/** The last word of the error's type, and its detail. */
function refused(work: () => unknown): readonly [string, string] {
  try {
    work()
  } catch (error) {
    if (!(error instanceof ApplicationFailure)) throw error
    expect(error.nonRetryable).toBe(true)
    const [{ type, detail }] = error.details as [{ type: string; detail: string }]
    return [type.split('/').at(-1) ?? '', detail]
  }
  throw new Error('nothing was refused')
}

const LIST = ['blue', 'black', 'b/r']
const OBJECT = { R: 100, G: 'a b' }

describe('parameter styles', () => {
  const path = (style: string, explode: boolean, value: unknown) => {
    const parameter = { name: 'c', in: 'path', style, explode }
    const { endpoint } = request(three({ parameters: [parameter] }, '/a/{c}/b'), { c: value })
    return endpoint.slice('https://api.example/v1/a/'.length, -2)
  }
  test.each([
    ['simple', false, 'x/y?', 'x%2Fy%3F'],
    ['simple', false, LIST, 'blue,black,b%2Fr'],
    ['simple', false, OBJECT, 'R,100,G,a%20b'],
    ['simple', true, OBJECT, 'R=100,G=a%20b'],
    ['label', false, 'x', '.x'],
    ['label', true, LIST, '.blue.black.b%2Fr'],
    ['matrix', false, 5, ';c=5'],
    ['matrix', false, LIST, ';c=blue,black,b%2Fr'],
    ['matrix', true, LIST, ';c=blue;c=black;c=b%2Fr'],
    ['matrix', true, OBJECT, ';R=100;G=a%20b'],
  ])('path %s explode %s %j: is encoded by its style', (style, explode, value, wanted) => {
    expect(path(style, explode, value)).toBe(wanted)
  })

  const query = (parameter: Fields, value: unknown) => {
    const { endpoint } = request(three({ parameters: [{ name: 'c', in: 'query', ...parameter }] }), {
      c: value,
    })
    return new URL(endpoint).search
  }
  test.each([
    [{}, 'a&b=c#d', '?c=a%26b%3Dc%23d'],
    [{}, LIST, '?c=blue&c=black&c=b%2Fr'],
    [{}, OBJECT, '?R=100&G=a%20b'],
    [{}, true, '?c=true'],
    [{}, null, ''],
    [{ explode: false }, LIST, '?c=blue,black,b%2Fr'],
    [{ explode: false }, OBJECT, '?c=R,100,G,a%20b'],
    [{ style: 'spaceDelimited' }, LIST, '?c=blue%20black%20b%2Fr'],
    [{ style: 'pipeDelimited' }, LIST, '?c=blue%7Cblack%7Cb%2Fr'],
    [
      { style: 'deepObject', explode: true },
      { ...OBJECT, in: { a: [1, 2] } },
      '?c[R]=100&c[G]=a%20b&c[in][a]=1&c[in][a]=2',
    ],
    [{ allowReserved: true }, 'a/b:c?d&e', '?c=a/b:c?d%26e'],
    [{ content: { 'application/json': {} } }, OBJECT, '?c=%7B%22R%22%3A100%2C%22G%22%3A%22a%20b%22%7D'],
    [{}, '\ud800', '?c=%EF%BF%BD'],
  ])('query %j %j: is encoded by its style', (parameter, value, wanted) => {
    expect(query(parameter, value)).toBe(wanted)
  })

  test.each([
    ['csv', '?c=blue,black,b%2Fr'],
    ['ssv', '?c=blue%20black%20b%2Fr'],
    ['tsv', '?c=blue%09black%09b%2Fr'],
    ['pipes', '?c=blue%7Cblack%7Cb%2Fr'],
    ['multi', '?c=blue&c=black&c=b%2Fr'],
    [undefined, '?c=blue,black,b%2Fr'],
  ])('Swagger 2.0 collection format %s: is encoded as specified', (collectionFormat, wanted) => {
    const parameter = { name: 'c', in: 'query', type: 'array', ...(collectionFormat && { collectionFormat }) }
    expect(new URL(request(two({ parameters: [parameter] }), { c: LIST }).endpoint).search).toBe(wanted)
  })

  test('headers and cookies: forbidden names are left out', () => {
    const parameters = [
      { name: 'X-Ids', in: 'header' },
      { name: 'Authorization', in: 'header' },
      { name: 'who', in: 'cookie' },
      { name: 'also', in: 'cookie', explode: false },
    ]
    const headers = { 'X-Ids': [1, 2], who: 'a;b=c', also: [1, 2] }
    expect(request(three({ parameters }), headers).headers).toEqual({
      'x-ids': '1,2',
      cookie: 'who=a%3Bb%3Dc; also=1,2',
    })
    expect(refused(() => request(three({ parameters }), { Authorization: 'x' }))[0]).toBe('validation')
  })
})

describe('servers', () => {
  test.each([
    [{ servers: [{ url: 'http://a.example/' }] }, 'http://a.example/things'],
    [{ servers: [{ url: '/rel/' }] }, 'https://docs.example/rel/things'],
    [{ servers: [{ url: '../up' }] }, 'https://docs.example/api/up/things'],
    [{ servers: [] }, 'https://docs.example/things'],
    [
      {
        servers: [
          { url: 'https://{r}.a.example/{v}', variables: { r: { default: 'eu' }, v: { default: 'v9' } } },
        ],
      },
      'https://eu.a.example/v9/things',
    ],
  ])('%j: yields the expected endpoint', (more, wanted) => {
    expect(request(three({}, '/things', more)).endpoint).toBe(wanted)
  })

  test('server of the operation: takes precedence over that of its path', () => {
    const own = three({ servers: [{ url: 'https://own.example' }] })
    expect(request(own).endpoint).toBe('https://own.example/things')
  })

  test.each([
    [{ schemes: ['http'] }, 'http://api.example/v2/things'],
    [{ schemes: ['wss', 'http'], basePath: undefined }, 'wss'],
    [{ schemes: ['http', 'https'] }, 'https://api.example/v2/things'],
    [{}, 'https://api.example/v2/things'],
    [{ host: undefined, basePath: 'x' }, 'https://docs.example/x/things'],
  ])('Swagger 2.0 %j: yields the expected endpoint', (more, wanted) => {
    if (wanted === 'wss') expect(refused(() => request(two({}, more)))[0]).toBe('configuration')
    else expect(request(two({}, more)).endpoint).toBe(wanted)
  })

  test.each(['file:///etc/passwd', 'javascript:x', 'http://'])('%s: is not accepted as a server', (url) => {
    expect(refused(() => request(three({}, '/things', { servers: [{ url }] })))[0]).toBe('configuration')
  })

  test('path: cannot change the host', () => {
    expect(refused(() => request(three({}, '@evil.example/x')))[0]).toBe('configuration')
    expect(request(three({}, '//evil.example/x')).endpoint).toBe('https://api.example/v1//evil.example/x')
  })
})

describe('bodies', () => {
  const content = (type: string, schema: Fields = {}) => ({
    requestBody: { content: { [type]: { schema } } },
  })
  const PET = { type: 'object', properties: { name: {}, age: {} } }
  test.each([
    ['application/json', { body: { a: 1 } }, '{"a":1}'],
    ['application/json', { body: 'x' }, '"x"'],
    ['application/merge-patch+json', { body: [] }, '[]'],
    ['*/*', { body: 1 }, '1'],
    ['text/plain; charset=utf-8', { body: 'x y' }, 'x y'],
    ['application/x-www-form-urlencoded', { body: { a: 'b&c', d: [1, 2] } }, 'a=b%26c&d=1&d=2'],
  ])('%s %j: is encoded by its media type', (type, given, wanted) => {
    const { body, headers } = request(three(content(type)), given)
    expect(body).toBe(wanted)
    expect(headers['content-type']).toBe(type === '*/*' ? 'application/json' : type)
  })

  test('properties of the body: may be given among the parameters', () => {
    const document = three(
      {
        ...content('application/json', { $ref: '#/components/schemas/Pet' }),
        parameters: [{ name: 'q', in: 'query' }],
      },
      '/things',
      { components: { schemas: { Pet: { allOf: [PET, { properties: { kind: {} } }] } } } },
    )
    const { body, endpoint } = request(document, { name: 'Milou', kind: 'dog', q: 1 })
    expect(body).toBe('{"name":"Milou","kind":"dog"}')
    expect(endpoint).toMatch(/\?q=1$/)
    expect(refused(() => request(document, { nam: 'x' }))).toEqual([
      'validation',
      'The operation has no parameter `nam`. Did you mean `name`?',
    ])
    expect(refused(() => request(document, { body: {}, name: 'x' }))[0]).toBe('validation')
  })

  test('Swagger 2.0: body and form parameters become the body', () => {
    const whole = two({ parameters: [{ name: 'pet', in: 'body', required: true, schema: PET }] })
    for (const args of [{ pet: { name: 'x' } }, { body: { name: 'x' } }, { name: 'x' }]) {
      expect(request(whole, args)).toMatchObject({
        body: '{"name":"x"}',
        headers: { 'content-type': 'application/json' },
      })
    }
    expect(refused(() => request(whole, {}))).toEqual([
      'validation',
      'The operation needs a body: the parameter `pet`.',
    ])
    const form = two({
      parameters: [
        { name: 'a', in: 'formData', required: true },
        { name: 'b', in: 'formData' },
      ],
    })
    expect(request(form, { a: 'x y' }).body).toBe('a=x%20y')
    expect(refused(() => request(form, { b: 1 }))[1]).toContain('`a`')
  })

  test.each(['multipart/mixed', 'application/xml', 'image/png'])('%s: is reported as unsupported', (type) => {
    const [kind, detail] = refused(() => request(three(content(type)), { body: {} }))
    expect([kind, detail.includes(type)]).toEqual(['configuration', true])
  })

  test('multipart form: the fields without nulls, encoded when it is sent', () => {
    const body = { a: 1, b: null, file: { filename: 'a.txt', content: 'x' } }
    expect(request(three(content('multipart/form-data')), { body })).toMatchObject({
      headers: { 'content-type': 'multipart/form-data' },
      body: { a: 1, file: { filename: 'a.txt', content: 'x' } },
    })
  })

  test('form: null is left out, a list is repeated', () => {
    const form = three(content('application/x-www-form-urlencoded'))
    expect(request(form, { body: { a: null, b: ['x', 'y'] } }).body).toBe('b=x&b=y')
  })

  test('form: a value that is no object: is rejected', () => {
    expect(
      refused(() => request(three(content('application/x-www-form-urlencoded')), { body: [1] }))[0],
    ).toBe('validation')
  })
})

describe('rejected', () => {
  const needed = (name: string, place = 'query') => ({ name, in: place, required: true })
  test('missing parameters: all are reported at once', () => {
    const document = three(
      { parameters: [needed('a'), needed('b', 'header'), needed('id', 'path')] },
      '/x/{id}',
    )
    expect(refused(() => request(document, { b: null }))).toEqual([
      'validation',
      'The operation needs parameters that are not given: `a`, `b`, `id`.',
    ])
  })

  test('unknown operation: the nearest name is suggested', () => {
    const document = three({ operationId: 'findPetsByStatus' })
    expect(refused(() => operationOf(document, 'findPetByStatus', AT))).toEqual([
      'configuration',
      'The document has no operation `findPetByStatus`. Did you mean `findPetsByStatus`?',
    ])
    for (const broken of [{}, { paths: [] }, { paths: { '/a': null, '/b': { get: 7 } } }]) {
      expect(refused(() => operationOf(broken, 'constructor', AT))[0]).toBe('configuration')
    }
  })

  test.each(['.', '..', '%2e%2e', ''])('path segment %j', (id) => {
    const document = three({ parameters: [needed('id', 'path')] }, '/x/{id}/y')
    if (id === '%2e%2e')
      expect(request(document, { id }).endpoint).toBe('https://api.example/v1/x/%252e%252e/y')
    else expect(refused(() => request(document, { id }))[0]).toBe('validation')
  })

  test('path segment that two values form together', () => {
    const parameters = [needed('a', 'path'), needed('b', 'path')]
    expect(refused(() => request(three({ parameters }, '/x/{a}{b}/y'), { a: '.', b: '.' }))[0]).toBe(
      'validation',
    )
  })

  test('line breaks: in any argument', () => {
    const hostile = 'x\r\nHost: evil.example'
    const header = three({ parameters: [needed('h', 'header')] })
    expect(refused(() => request(header, { h: hostile }))[0]).toBe('validation')
    for (const place of ['query', 'path', 'cookie']) {
      const text = JSON.stringify(
        request(three({ parameters: [needed('p', place)] }, '/{p}'.slice(0, place === 'path' ? 4 : 1)), {
          p: hostile,
        }),
      )
      expect(text).not.toMatch(/\\r|\\n/)
      expect(text).toContain('%0D%0A')
    }
  })

  test.each([
    ['a circle', { $ref: '#/components/a' }, 'circular'],
    ['itself', { $ref: '#/components/self' }, 'circular'],
    ['another file', { $ref: 'other.yaml#/a' }, 'leaves the document'],
    ['another server', { $ref: 'http://169.254.169.254/' }, 'leaves the document'],
    ['nowhere', { $ref: '#/components/none' }, 'points to nothing'],
    ['what objects inherit', { $ref: '#/constructor/prototype' }, 'points to nothing'],
    ['half an escape', { $ref: '#/%E0%A4%A' }, 'points to nothing'],
  ])('reference to %s', (_name, parameter, why) => {
    const components = {
      a: { $ref: '#/components/b' },
      b: { $ref: '#/components/a' },
      self: { $ref: '#/components/self' },
    }
    const [type, detail] = refused(() => request(three({ parameters: [parameter] }, '/x', { components })))
    expect([type, detail.includes(why)]).toEqual(['configuration', true])
  })

  test('document built to take minutes: is read quickly', () => {
    const part = { $ref: '#/components/tree' }
    const tree = { allOf: Array.from({ length: 2_000 }, () => part) }
    const chain = { allOf: [{}] as unknown[] }
    for (let n = 0; n < 50_000; n++) chain.allOf = [{ allOf: chain.allOf }]
    tree.allOf.push(chain as never)
    const parameters = Array.from({ length: 20_000 }, (_, n) => ({ name: `p${n}`, in: 'path' }))
    const path = parameters.map(({ name }) => `/{${name}}`).join('')
    const requestBody = { content: { 'application/json': { schema: part } } }
    const document = three({ requestBody, parameters }, path, { components: { tree } })
    const elapsedMs = stopwatch()
    request(document, Object.fromEntries(parameters.map(({ name }) => [name, 'x'])))
    expect(refused(() => request(three({ parameters: [{ $ref: `#/${'a/'.repeat(1_000)}` }] })))[1]).toContain(
      'too long',
    )
    expect(elapsedMs()).toBeLessThan(10_000)
  })

  test('references: escapes are resolved, and recursive schemas are harmless', () => {
    const tree: Fields = {
      type: 'object',
      properties: { below: { $ref: '#/components/tree' } },
      allOf: [{ $ref: '#/components/tree' }],
    }
    const components = { tree, 'a/b~c': { name: 'q', in: 'query' } }
    const requestBody = { content: { 'application/json': { schema: { $ref: '#/components/tree' } } } }
    const document = three({ requestBody, parameters: [{ $ref: '#/components/a~1b~0c' }] }, '/x', {
      components,
    })
    expect(request(document, { below: {}, q: 1 })).toMatchObject({ body: '{"below":{}}' })
  })
})
