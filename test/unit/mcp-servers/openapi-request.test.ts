/** Requests of OpenAPI tools: where arguments go, and that none leaves its place. */

import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { Problem } from '../../../src/core/problem.ts'
import type { Parameter } from '../../../src/features/mcp-servers/remote/openapi/arguments.ts'
import type { OpenApiCall } from '../../../src/features/mcp-servers/remote/openapi/read-tools.ts'
import { requestOf } from '../../../src/features/mcp-servers/remote/openapi/request.ts'

const parameter = (name: string, place: Parameter['in'], more: Partial<Parameter> = {}): Parameter => ({
  ...{ argument: name, name, in: place, json: false, reserved: false },
  ...(place === 'query' ? { style: 'form', explode: true } : { style: 'simple', explode: false }),
  ...more,
})

const call = (more: Partial<OpenApiCall> = {}): OpenApiCall => ({
  server: 'https://api.example/v1/',
  method: 'POST',
  path: '/pets/{id}/photos',
  parameters: [parameter('id', 'path')],
  ...more,
})

const urlOf = (args: object, more: Partial<OpenApiCall> = {}) =>
  requestOf(call(more), args as Record<string, unknown>, {}).url.href

const refusedBy = (work: () => unknown): string => {
  try {
    work()
  } catch (error) {
    if (error instanceof Problem && error.code === 'validation_failed') return error.message
    throw error
  }
  return 'not refused'
}

describe('path', () => {
  test.each([
    ['7', '7'],
    [7, '7'],
    ['a b/c', 'a%20b%2Fc'],
    ['?x=1#y', '%3Fx%3D1%23y'],
    ['..a', '..a'],
    ['@evil.example', '%40evil.example'],
    ['//evil.example', '%2F%2Fevil.example'],
    [['a', 'b'], 'a,b'],
  ])('%j: one segment', (id, segment) => {
    expect(urlOf({ id })).toBe(`https://api.example/v1/pets/${segment}/photos`)
  })

  test.each(
    [
      [
        '.',
        '..',
        './..',
        '../admin',
        'a/../b',
        '..\\admin',
        '%2e%2e',
        '%2e%2e%2fadmin',
        '%252e%252e%252fadmin',
        '..%2fadmin',
      ],
      ['', 'a\r\nb', 'a\u0000', 'a%0d%0aHost: evil', '\u007f', '\u0085'],
    ].flat(),
  )('%j: refused (T32)', (id) => {
    expect(refusedBy(() => urlOf({ id }))).toMatch(/^id must not/)
  })

  test('parts of one segment that are a step together: refused', () => {
    const parameters = [parameter('a', 'path'), parameter('b', 'path')]
    expect(refusedBy(() => urlOf({ a: '', b: '..' }, { path: '/x/{a}{b}', parameters }))).toMatch(/must not/)
    expect(urlOf({ a: 'x', b: 'y' }, { path: '/x/{a}{b}', parameters })).toBe('https://api.example/v1/x/xy')
  })

  test('any text: stays in its segment, or is refused (T32)', () => {
    const pieces = fc.constantFrom(
      '.',
      '..',
      '/',
      '\\',
      '%2e',
      '%2F',
      '%',
      '%25',
      '?',
      '#',
      ';',
      '@',
      ':',
      '\n',
      '\u0000',
      'ü',
      'a',
    )
    const texts = fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.array(pieces, { maxLength: 6 }).map((parts) => parts.join('')),
    )
    fc.assert(
      fc.property(texts, (id) => {
        let url: URL
        try {
          url = requestOf(call(), { id }, {}).url
        } catch (error) {
          expect(error).toBeInstanceOf(Problem)
          return
        }
        expect([url.origin, url.search, url.hash]).toEqual(['https://api.example', '', ''])
        const steps = new URL(url.href).pathname.split('/')
        expect(steps).toHaveLength(5)
        expect([steps[1], steps[2], steps[4]]).toEqual(['v1', 'pets', 'photos'])
        expect(decodeURIComponent(steps[3] ?? '')).toBe(id.toWellFormed())
      }),
      { numRuns: 500 },
    )
  })
})

describe('query', () => {
  const parameters = [
    parameter('id', 'path'),
    parameter('tags', 'query'),
    parameter('filter', 'query'),
    parameter('tenant', 'query'),
    parameter('q', 'query', { json: true }),
  ]
  test('lists, objects, JSON and text with line breaks: encoded', () => {
    const href = urlOf({ id: 1, tags: ['a&b', 'c'], q: { x: [1] }, tenant: 'a\nb' }, { parameters })
    expect(new URL(href).search).toBe('?tags=a%26b&tags=c&tenant=a%0Ab&q=%7B%22x%22%3A%5B1%5D%7D')
    expect(urlOf({ id: 1, filter: null }, { parameters })).not.toContain('?')
  })

  test('members of an object: do not replace another parameter, such as one that the curation has fixed', () => {
    expect(urlOf({ id: 1, filter: { color: 'red' } }, { parameters })).toContain('?color=red')
    expect(refusedBy(() => urlOf({ id: 1, filter: { tenant: 'other' } }, { parameters }))).toBe(
      'filter must not have a member that is sent as tenant.',
    )
    const deep = [
      parameter('id', 'path'),
      parameter('filter', 'query', { style: 'deepObject' }),
      parameter('filter[tenant]', 'query'),
    ]
    expect(urlOf({ id: 1, filter: { a: { b: 1 } } }, { parameters: deep })).toContain('?filter[a][b]=1')
    expect(refusedBy(() => urlOf({ id: 1, filter: { tenant: 'other' } }, { parameters: deep }))).toBe(
      'filter must not have a member that is sent as filter[tenant].',
    )
  })
})

describe('headers', () => {
  const parameters = [parameter('id', 'path'), parameter('X-Note', 'header'), parameter('X-Key', 'header')]

  test('those of the source are sent whatever the arguments are', () => {
    const made = requestOf(
      call({ parameters }),
      { id: 1, 'X-Note': 'n', 'X-Key': 'mine' },
      { 'x-key': 'secret' },
    )
    expect(made.headers).toMatchObject({ 'x-note': 'n', 'x-key': 'secret' })
  })

  test.each(['a\r\nx-key: mine', 'a\nb', 'a\u0000', 'snow ☃'])('%j: refused (T32)', (value) => {
    expect(refusedBy(() => urlOf({ id: 1, 'X-Note': value }, { parameters }))).toMatch(
      /^X-Note must have no line breaks/,
    )
  })
})

describe('body', () => {
  const parameters = [parameter('id', 'path')]
  const members = [
    { argument: 'name', name: 'name' },
    { argument: 'id_body', name: 'id' },
  ]
  const bodyOf = (args: object, body: OpenApiCall['body']) => {
    const { headers, body: text } = requestOf(
      call({ parameters, ...(body && { body }) }),
      { id: 1, ...args },
      {},
    )
    return [headers['content-type'], text]
  }
  test('members by their own names, as JSON or as a form; none without an argument', () => {
    const json = { media: 'application/json', members }
    expect(bodyOf({ name: 'a', id_body: null }, json)).toEqual(['application/json', '{"name":"a","id":null}'])
    expect(bodyOf({}, json)).toEqual([undefined, undefined])
    const form = { media: 'application/x-www-form-urlencoded', members }
    expect(bodyOf({ name: 'a&b', id_body: [1, 2] }, form)).toEqual([form.media, 'name=a%26b&id=1&id=2'])
    expect(bodyOf({ id_body: { name: 'x' } }, form)).toEqual([form.media, 'id[name]=x'])
    expect(bodyOf({ body: [1] }, { media: 'application/json', argument: 'body' })).toEqual([
      'application/json',
      '[1]',
    ])
  })
})
