/** Checks the components of the OpenAPI document, the names of clients, and the events of streams. */

import { Ajv2020 } from 'ajv/dist/2020.js'
import Type from 'typebox'
import { expect, test } from 'vitest'
import { component } from '../../src/core/components/component.ts'
import { OPERATIONS } from '../../src/features/index.ts'
import { openApi } from '../../src/features/openapi/document.ts'

interface Schema {
  readonly $ref?: string
  readonly anyOf?: readonly Schema[]
  readonly items?: Schema
  readonly properties?: Readonly<Record<string, Schema>>
  readonly examples?: readonly unknown[]
}

interface Described {
  readonly operationId: string
  readonly 'x-client': { readonly group: string; readonly method: string }
  readonly responses: Readonly<Record<string, { readonly content?: Readonly<Record<string, Media>> }>>
}

interface Media {
  readonly schema?: Schema
  readonly 'x-events'?: Readonly<Record<string, { readonly data: Schema }>>
}

const document = openApi(OPERATIONS) as {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Described>>>>
  readonly components: { readonly schemas: Readonly<Record<string, Schema>> }
}
const described = Object.values(document.paths).flatMap((path) => Object.values(path))
const { schemas } = document.components

/** Replies in JSON without a name, each with the reason. */
const UNNAMED: Readonly<Record<string, string>> = {
  'function.invoke': 'The return value of the function is of any type.',
  'openapi.get': 'The OpenAPI Initiative publishes the schema of OpenAPI documents.',
}

/** True for a reference, a choice of them, and a list or a page of them. */
const isNamed = ({ $ref, anyOf, items, properties }: Schema): boolean => {
  if ($ref !== undefined) return true
  if (anyOf !== undefined) return anyOf.every(isNamed)
  if (items !== undefined) return isNamed(items)
  const { data, ...others } = properties ?? {}
  return data !== undefined && isNamed(data) && Object.keys(others).every((name) => name === 'page')
}

test('replies in JSON: are named components, pages of them, or listed here', () => {
  const unnamed = described.filter(({ responses }) =>
    Object.values(responses).some(({ content }) => {
      const schema = content?.['application/json']?.schema
      return schema !== undefined && !isNamed(schema)
    }),
  )
  expect(unnamed.map(({ operationId }) => operationId).sort()).toEqual(Object.keys(UNNAMED).sort())
})

const BASE = 'https://tenon.example/openapi.json'
const ajv = new Ajv2020({ strict: false, validateFormats: false, allErrors: true })
ajv.addSchema({ $id: BASE, components: { schemas } })

test.each(Object.entries(schemas))('component %s: its example is valid', (name, { examples = [] }) => {
  const validate = ajv.getSchema(`${BASE}#/components/schemas/${name}`)
  expect(examples).toHaveLength(1)
  expect([validate?.(examples[0]), validate?.errors ?? []]).toEqual([true, []])
})

test('names of components: PascalCase', () => {
  expect(Object.keys(schemas).filter((name) => !/^([A-Z][a-z0-9]*)+$/.test(name))).toEqual([])
})

test('two schemas of one name: the document cannot be made', () => {
  const [first] = OPERATIONS
  const one = component('Twin', Type.Object({ a: Type.String() }), { a: '' })
  const other = component('Twin', Type.Object({ b: Type.String() }), { b: '' })
  const operations = [one, other].map((output, index) => ({
    ...first,
    http: { method: 'GET', path: `/v1/twins/${index}` },
    output,
  }))
  expect(() => openApi(operations as never)).toThrow('two schemas have the name Twin')
})

test('schemas of operations: have no member of their component', () => {
  const texts = OPERATIONS.map(({ input, output }) => JSON.stringify([input, output]))
  expect(texts.filter((text) => /"\$(id|ref)":/.test(text.replaceAll(/"\$ref":\{/g, '')))).toEqual([])
})

/** Groups of one thing. */
const NO_PLURAL = [
  'audit',
  'batch',
  'codec',
  'inbox',
  'issuer',
  'mcpCuration',
  'me',
  'openapi',
  'signInPolicy',
  'usage',
]

test('names in clients: are identifiers in the plural, and unique', () => {
  const names = described.map(({ 'x-client': { group, method } }) => `${group}.${method}`)
  expect(names.filter((name) => !/^[a-z][A-Za-z0-9]*\.[a-z][A-Za-z0-9]*$/.test(name))).toEqual([])
  expect(names.filter((name, at) => names.indexOf(name) !== at)).toEqual([])
  const singular = described.filter(({ 'x-client': { group } }) => !/[^s]s$/.test(group))
  expect([...new Set(singular.map(({ 'x-client': { group } }) => group))].toSorted()).toEqual(NO_PLURAL)
  const examples = [
    'collections.create',
    'flowAliases.set',
    'mcpServers.list',
    'executions.retryStep',
    'me.get',
  ]
  expect(names).toEqual(expect.arrayContaining(examples))
})

test('streams: describe their events by name, and their end', () => {
  const streams = described.flatMap(({ operationId, responses }) => {
    const media = responses['200']?.content?.['text/event-stream']
    return media === undefined ? [] : [[operationId, media['x-events'] ?? {}] as const]
  })
  const feeds = OPERATIONS.filter(({ http }) => http.reply === 'feed').map(({ name }) => name)
  expect(streams.map(([name]) => name).sort()).toEqual(feeds.sort())
  for (const [name, events] of streams) {
    expect([name, Object.keys(events)]).toEqual([name, expect.arrayContaining(['ready', 'end'])])
    expect(Object.values(events).map(({ data }) => isNamed(data))).not.toContain(false)
  }
})
