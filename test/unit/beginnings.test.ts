// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** What is asked for a run that is about to begin: which requests, for whom, and when the run has the answers. */

import { defaultPayloadConverter, type Payload } from '@temporalio/common'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import type { Json } from '../../flows-dsl/ir.ts'
import { Beginnings } from '../../src/activities/beginnings.ts'
import type { FunctionCall, Tried } from '../../src/activities/contract.ts'
import type { Call } from '../../src/activities/door.ts'
import { randomIds } from '../../src/core/ids.ts'
import { LIMITS } from '../../src/core/limits.ts'
import { Problem } from '../../src/core/problem.ts'
import type { FlowRunInput } from '../../src/core/run.ts'
import { compiled } from '../flows/scenario.ts'

const { beginnings: bounds, ahead } = LIMITS.briefCalls
const REF = { tenantId: `ten_${'0'.repeat(26)}`, workspaceId: `ws_${'0'.repeat(26)}` } as const
const HEAD = "document: { dsl: '1.0.3', namespace: n, name: x, version: '1.0.0' }\ndo:\n"
const get = (name: string, url: string) =>
  `  - ${name}: { call: http, with: { method: get, endpoint: '${url}' } }\n`
const GETS = HEAD + get('a', '${ "http://a/\\(.n)" }') + get('b', '${ "http://b/\\(.n)" }')

const toPayload = (value: unknown) => defaultPayloadConverter.toPayload(value) as Payload

interface Given {
  readonly id?: string
  readonly source?: string
  readonly type?: string
  readonly more?: Partial<FlowRunInput>
  readonly payload?: Payload
}

let made: { call: Call; request: FunctionCall }[]
let answer: (request: FunctionCall) => Promise<Tried | null>
let beginnings: Beginnings
beforeEach(() => {
  vi.useFakeTimers()
  made = []
  answer = async () => ({ output: { n: made.length }, took_ms: 1 })
  beginnings = new Beginnings({ decode: async (payloads) => payloads }, (call, request) => {
    made.push({ call, request })
    return answer(request)
  })
})
afterEach(() => vi.useRealTimers())

/** A start of a run of version 3. @returns the call of its first activity, and how to say that it was not made */
function begin({ id = 'r', source = GETS, type = 'flowRun', more = {}, payload }: Given = {}) {
  const workflowId = `${REF.tenantId}:${REF.workspaceId}:flow_1:${id}`
  const flow = { id: 'flow_1', name: 'x', version: 3 }
  const run = { execution_id: id, flow, ir: compiled(source), input: { n: 0 } as Json, ...more }
  const forget = beginnings.begin({
    workflowId,
    workflowType: { name: type },
    input: { payloads: [payload ?? toPayload(run)] },
    searchAttributes: {
      indexedFields: { FlowId: toPayload('flow_1'), FlowVersion: toPayload(source) },
    },
  })
  return { call: { ref: REF, workflowId, ids: randomIds, hops: 0 } satisfies Call, forget }
}

const asking = (endpoint: string): FunctionCall => ({
  function: 'http',
  arguments: { method: 'GET', endpoint, output: 'content', redirect: false },
})
const endpoints = () => made.map(({ request }) => request.arguments['endpoint'])

test('the first is made for the run, with its secrets, and what follows from it too; the run has the answers once', async () => {
  const { call } = begin({ more: { secrets: { key: 'handle' }, trigger: { kind: 'event', hops: 2 } } })
  const tried = await beginnings.take(call, asking('http://a/0'))
  expect(endpoints()).toEqual(['http://a/0', 'http://b/1'])
  expect(made[0]?.request.secrets).toEqual(['key'])
  expect(made.map(({ call: { ref, workflowId, hops } }) => [ref, workflowId, hops])).toEqual(
    Array(2).fill([REF, call.workflowId, 2]),
  )
  expect(tried).toMatchObject({ output: { n: 1 }, ahead: [{ place: '/do/b', output: { n: 2 } }] })
  expect(await beginnings.take(call, asking('http://a/0'))).toBeNull()
})

test('another run has nothing of it, nor has another question', async () => {
  const [mine, other] = [begin({ id: 'mine' }), begin({ id: 'other', source: HEAD + get('z', 'http://z/') })]
  expect(await beginnings.take(other.call, asking('http://a/0'))).toBeNull()
  expect(await beginnings.take(mine.call, asking('http://a/1'))).toBeNull()
  expect(await beginnings.take(mine.call, asking('http://a/0'))).toBeNull()
})

test('a failure of the first is that of the run; if nobody asks, it is nobody’s', async () => {
  answer = () => Promise.reject(new Problem('egress_refused', { detail: 'No.' }))
  const { call } = begin()
  begin({ id: 'nobody' })
  await expect(beginnings.take(call, asking('http://a/0'))).rejects.toThrow('No.')
})

test.each([
  ['is not sealed', { payload: { metadata: { encoding: Buffer.from('binary/tenon-rejected') } } }],
  ['is no run of a flow', { type: 'provision' }],
  ['takes answers over from another run', { more: { reuse: { from: '/do/b', answers: {} } } }],
  ['carries much', { more: { input: 'x'.repeat(ahead.charsMax) } }],
  ['begins with something else', { source: `${HEAD}  - rest: { wait: PT1S }\n${get('a', 'http://a/')}` }],
  ['is that of a flow which nobody knows how to run', { more: { ir: {} } }],
] as const)('of one that %s, nothing is asked', async (_what, given: Given) => {
  const { call } = begin(given)
  expect(await beginnings.take(call, asking('http://a/0'))).toBeNull()
  expect(made).toEqual([])
})

test('what lies in the object store is not fetched for it', async () => {
  const decode = vi.fn(async (payloads: Payload[]) => payloads)
  beginnings = new Beginnings({ decode }, async () => null)
  const metadata = { encoding: Buffer.from('binary/tenon-claim') }
  const { call } = begin({ payload: { metadata, data: Buffer.from('0'.repeat(64)) } })
  expect(await beginnings.take(call, asking('http://a/0'))).toBeNull()
  expect(decode).not.toHaveBeenCalled()
})

test('a version that begins with something else is not looked at again, and no other for that', async () => {
  const decode = vi.fn(async (payloads: Payload[]) => payloads)
  beginnings = new Beginnings({ decode }, async () => null)
  const source = `${HEAD}  - a: { set: { b: 1 } }\n`
  await beginnings.take(begin({ source }).call, asking('http://a/0'))
  await beginnings.take(begin({ id: 'again', source }).call, asking('http://a/0'))
  expect(decode).toHaveBeenCalledTimes(1)
  for (const id of ['one', 'two']) await beginnings.take(begin({ id }).call, asking('http://a/0'))
  expect(decode).toHaveBeenCalledTimes(3)
})

test('a large answer is not kept, nor asked for again where it will be large', async () => {
  answer = async () => ({ output: 'x'.repeat(ahead.answersCharsMax), took_ms: 1 })
  expect(await beginnings.take(begin().call, asking('http://a/0'))).toBeNull()
  begin({ id: 'again' })
  await vi.advanceTimersByTimeAsync(1)
  expect(made).toHaveLength(1)
})

test('what nobody asks for is forgotten: at once where the start was not made, else after a moment', async () => {
  const [refused, late] = [begin({ id: 'refused' }), begin({ id: 'late' })]
  refused.forget()
  expect(await beginnings.take(refused.call, asking('http://a/0'))).toBeNull()
  await vi.advanceTimersByTimeAsync(bounds.keptMs)
  expect(await beginnings.take(late.call, asking('http://a/0'))).toBeNull()
})

test('only so many are kept', async () => {
  for (let n = 0; n <= bounds.keptMax; n++) begin({ id: `r${n}`, source: HEAD + get('a', 'http://a/0') })
  await vi.advanceTimersByTimeAsync(1)
  expect(made).toHaveLength(bounds.keptMax)
})
