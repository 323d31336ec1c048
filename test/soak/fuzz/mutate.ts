/** Changes a valid request in one to three places, so that it may be refused but never fails the server. */

import fc from 'fast-check'
import type { FuzzRequest } from './requests.ts'
import { jsonText, oddText, oddValue } from './values.ts'

/** What is sent. */
export interface WireRequest {
  readonly method: string
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer | undefined
}

interface Change {
  readonly of: 'body' | 'path' | 'query' | 'header'
  readonly how: 'drop' | 'replace' | 'add' | 'repeat' | 'splice'
  readonly at: number
  readonly name: string
  readonly value: unknown
  readonly text: string
}

const change: fc.Arbitrary<Change> = fc.record({
  of: fc.constantFrom<Change['of']>('body', 'body', 'body', 'path', 'query', 'header'),
  how: fc.constantFrom<Change['how']>('drop', 'replace', 'replace', 'add', 'repeat', 'splice'),
  at: fc.nat({ max: 10_000 }),
  name: fc.oneof(
    oddText,
    fc.constantFrom(
      'id',
      'name',
      'workspace_id',
      'tenant_id',
      'data',
      'select',
      'order',
      'page[size]',
      'page[after]',
    ),
  ),
  value: oddValue,
  text: oddText,
})

const ODD_HEADERS = [
  ...[
    'if-match',
    'if-none-match',
    'prefer',
    'range',
    'if-range',
    'last-event-id',
    'idempotency-key',
    'content-type',
  ],
  ...[
    'accept',
    'content-encoding',
    'content-md5',
    'if-modified-since',
    'x-request-id',
    'traceparent',
    'tenon-chain-depth',
  ],
]

/** @param request a valid one @returns it with changes */
export const mutated = (request: FuzzRequest): fc.Arbitrary<FuzzRequest> =>
  fc.array(change, { minLength: 1, maxLength: 3 }).map((changes) => changes.reduce(apply, request))

function apply(request: FuzzRequest, made: Change): FuzzRequest {
  const encoded = encode(made.text)
  switch (made.of) {
    case 'path':
      return { ...request, segments: inList(request.segments, made, encoded) }
    case 'query':
      return { ...request, query: inList(request.query, made, `${encode(made.name)}=${encoded}`) }
    case 'header': {
      const name = ODD_HEADERS[made.at % ODD_HEADERS.length] ?? 'accept'
      // What a client can send at all: visible characters.
      const value = made.text.replaceAll(/[^\x20-\x7e]/g, '?').slice(0, 2_000)
      return { ...request, headers: { ...request.headers, [name]: value } }
    }
    case 'body':
      return request.body === undefined ? request : { ...request, body: inValue(request.body, made) }
  }
}

/** Unpaired surrogates have no encoding. */
const encode = (text: string) =>
  encodeURIComponent(text.toWellFormed())
    .slice(0, 6_000)
    .replace(/%[0-9A-F]?$/, '')

function inList(list: readonly string[], { how, at }: Change, added: string): string[] {
  const index = list.length === 0 ? 0 : at % list.length
  const one = list[index] ?? added
  const kept = {
    drop: [],
    replace: [added],
    add: [one, added],
    repeat: [one, one],
    splice: [splice(one, at, added)],
  }[how]
  return list.toSpliced(index, 1, ...kept)
}

function splice(text: string, at: number, added: string): string {
  const start = text.length === 0 ? 0 : at % text.length
  return text.slice(0, start) + added + text.slice(start + (at % 7))
}

/** Changes one value of a tree, which the position chooses. */
function inValue(value: unknown, made: Change): unknown {
  const { how, at, name, text } = made
  const entries = typeof value === 'object' && value !== null ? Object.entries(value) : []
  if (entries.length === 0 || at % 4 === 0) {
    if (typeof value === 'string' && how !== 'replace') return splice(value, at >> 2, text)
    return how === 'repeat' ? [value, value] : made.value
  }
  const [key, member] = entries[(at >> 2) % entries.length] ?? ['', undefined]
  const inner =
    how === 'drop' && at % 3 === 0 ? undefined : inValue(member, { ...made, at: Math.floor(at / 5) })
  if (Array.isArray(value)) return value.toSpliced(Number(key), 1, ...(inner === undefined ? [] : [inner]))
  const others = Object.fromEntries(entries.filter(([other]) => other !== key || how === 'add'))
  if (how === 'add') return { ...others, [name]: made.value }
  return inner === undefined ? others : { ...others, [key]: inner }
}

/** Changes of the text of a body. */
const bodyEdit = fc.constantFrom<(text: string) => string | Buffer>(
  (text) => text.slice(0, -1),
  (text) => text.replace(/^\{("[^"]*":)/, '{$1null,$1'),
  (text) =>
    Buffer.concat([Buffer.from(text.slice(0, -1)), Buffer.from([0xff, 0xfe]), Buffer.from(text.slice(-1))]),
  (text) => `\ufeff${text}`,
  (text) => text + text,
  (text) => text.padEnd(1_200_000),
  (text) => '['.repeat(50_000) + text,
  () => '',
)

/** @param isEdited whether the text of the body is changed as well */
export const wireOf = (request: FuzzRequest, isEdited: boolean): fc.Arbitrary<WireRequest> =>
  (isEdited ? bodyEdit : fc.constant((text: string) => text)).map((edit) => {
    const { method, segments, query, headers, body } = request
    const sent =
      body === undefined || method === 'GET' || method === 'HEAD'
        ? undefined
        : edit(typeof body === 'string' ? body : jsonText(body))
    return {
      method,
      path: `/${segments.join('/')}${query.length === 0 ? '' : `?${query.join('&')}`}`,
      headers: { ...(sent !== undefined && { 'content-type': 'application/json' }), ...headers },
      body: sent === undefined ? undefined : Buffer.from(sent),
    }
  })
