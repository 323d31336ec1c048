// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** Going on from an answer: how far, what ends it, and when what it has brought is believed. */

import { afterEach, expect, test, vi } from 'vitest'
import type { FlowIR, Json } from '../../flows-dsl/ir.ts'
import type { Whereabouts } from '../../flows-dsl/machine/course.ts'
import type { CallRequest } from '../../flows-dsl/run.ts'
import { runFlow } from '../../flows-dsl/run.ts'
import { goingAhead } from '../../src/activities/ahead.ts'
import { callFailure } from '../../src/activities/call-failure.ts'
import type { FunctionCall, Tried } from '../../src/activities/contract.ts'
import { LIMITS } from '../../src/core/limits.ts'
import { Problem } from '../../src/core/problem.ts'
import { Ahead } from '../../src/workflows/ahead.ts'
import { compiled, INFO, World } from '../flows/scenario.ts'

const { callsMax, answersCharsMax, charsMax } = LIMITS.briefCalls.ahead
const ENDLESS = `document: { dsl: '1.0.3', namespace: n, name: x, version: '1.0.0' }
do:
  - get: { call: http, with: { method: get, endpoint: '\${ "http://a/\\(.n)" }' }, then: get }
`
const ir = compiled(ENDLESS)

/** The first call of the flow, as it is asked for. */
async function first(input: Json = { n: 0 }): Promise<{ request: CallRequest; where: Whereabouts }> {
  return new Promise((resolve, reject) => {
    const world = Object.assign(new World(), {
      call: (request: CallRequest, where: () => Whereabouts | undefined) => {
        const stands = where()
        if (stands === undefined) reject(new Error('It stands nowhere.'))
        else resolve({ request, where: stands })
        return new Promise<Json>(() => {})
      },
    })
    void runFlow(ir, input, world, INFO)
  })
}

async function asked(): Promise<FunctionCall> {
  const { request, where } = await first()
  const stands = { flow: JSON.stringify(ir), stands: JSON.stringify(where) }
  return { function: request.function, arguments: request.arguments, secrets: ['s'], where: stands }
}

/** Answers each with the next number, at once. */
function pages(answer: (n: number) => Json | Promise<never> = (n) => ({ n })) {
  const made: FunctionCall[] = []
  const attempt = async (request: FunctionCall): Promise<Tried | null> => {
    made.push(request)
    const output = await answer(made.length)
    return output === null ? null : { output, took_ms: 1 }
  }
  return { made, attempt }
}

const endpoints = (made: readonly FunctionCall[]) => made.map((one) => one.arguments['endpoint'])

test('it goes on to so many, each with the secrets of the run and without where it stood', async () => {
  const { made, attempt } = pages()
  const tried = await goingAhead(await asked(), attempt)
  expect(tried?.ahead).toHaveLength(callsMax)
  expect(endpoints(made)).toEqual(Array.from({ length: callsMax + 1 }, (_, n) => `http://a/${n}`))
  expect(made.every((one) => one.secrets?.[0] === 's' && one.where === undefined)).toBe(true)
})

test.each([
  ['has no place, or is slow', () => null],
  ['is refused', () => Promise.reject(new Problem('egress_refused', { detail: 'No.' }))],
  ['answers too much', () => ({ n: 'x'.repeat(answersCharsMax) })],
])('where the third %s, two have answers', async (_what, third) => {
  const { made, attempt } = pages((n) => (n === 3 ? third() : { n }))
  const tried = await goingAhead(await asked(), attempt)
  expect([tried?.output, tried?.ahead?.length, made.length]).toEqual([{ n: 1 }, 1, 3])
})

test('an answer that is an error is the last', async () => {
  const { attempt } = pages((n) =>
    n === 2 ? Promise.reject(callFailure('communication', 'It failed.')) : { n },
  )
  const tried = await goingAhead(await asked(), attempt)
  expect(tried?.ahead).toMatchObject([{ place: '/do/get~x1', failure: { detail: 'It failed.' } }])
})

test('what the first is answered is told as ever, whatever it stands on', async () => {
  const request = await asked()
  const broken = [
    { flow: '{', stands: '{}' },
    { flow: request.where?.flow ?? '', stands: '{}' },
    { flow: request.where?.flow ?? '', stands: '{"call":9,"snapshot":[]}' },
  ]
  for (const where of broken)
    expect(await goingAhead({ ...request, where }, pages().attempt)).toEqual({ output: { n: 1 }, took_ms: 1 })
  expect(await goingAhead(request, async () => null)).toBeNull()
  await expect(goingAhead(request, () => Promise.reject(new Error('x')))).rejects.toThrow('x')
})

async function kept(): Promise<{ ahead: Ahead; requests: CallRequest[] }> {
  const { request, where } = await first()
  const ahead = new Ahead(ir)
  const stands = ahead.where(request, () => where)
  if (stands === undefined) throw new Error('It is too much.')
  const tried = await goingAhead({ ...(await asked()), where: stands }, pages().attempt)
  if (tried === null) throw new Error('It has no answer.')
  ahead.keep(request, tried)
  const requests = (tried.ahead ?? []).map((one) => ({
    ...request,
    arguments: one.arguments,
    step: { ...request.step, place: one.place },
  }))
  return { ahead, requests }
}

afterEach(() => vi.useRealTimers())

test('each is taken in its turn, at its own time', async () => {
  vi.useFakeTimers({ now: 1_000_000, toFake: ['Date'] })
  const { ahead, requests } = await kept()
  vi.setSystemTime(1_000_100)
  for (const [n, request] of requests.entries()) {
    expect(ahead.nowMs()).toBe(1_000_100 - (requests.length - n))
    expect(ahead.take(request)).toMatchObject({ output: { n: n + 2 } })
  }
  expect([ahead.nowMs(), ahead.take(requests[0] as CallRequest)]).toEqual([1_000_100, undefined])
  // Asked for in the same moment: no time before that.
  const again = await kept()
  expect(again.ahead.nowMs()).toBe(1_000_100)
})

test.each([
  ['at another place', (request: CallRequest) => ({ ...request, step: { ...request.step, place: '/do/x' } })],
  ['with other arguments', (request: CallRequest) => ({ ...request, arguments: { endpoint: 'http://b/' } })],
])('who asks %s than was foreseen has none of the answers', async (_what, other) => {
  const { ahead, requests } = await kept()
  const [next, after] = requests as [CallRequest, CallRequest]
  expect(ahead.take(other(next))).toBeUndefined()
  expect([ahead.take(next), ahead.take(after)]).toEqual([undefined, undefined])
})

test('nothing is left where something else was done', async () => {
  const { ahead, requests } = await kept()
  ahead.drop()
  expect(ahead.take(requests[0] as CallRequest)).toBeUndefined()
})

test('nobody is told where a run stands that is large, and it is looked at once', async () => {
  const { request, where } = await first()
  const large = await first({ n: 'x'.repeat(charsMax) })
  const ahead = new Ahead(ir)
  expect(ahead.where(large.request, () => large.where)).toBeUndefined()
  expect(ahead.where(request, () => expect.fail())).toBeUndefined()
  const flow = { ...ir, pad: 'x'.repeat(charsMax) } as FlowIR
  expect(new Ahead(flow).where(request, () => where)).toBeUndefined()
})

test('nor of one in which more goes on, or after whose step nothing came', async () => {
  const { request, where } = await first()
  const ahead = new Ahead(ir)
  expect(ahead.where(request, () => undefined)).toBeUndefined()
  expect(ahead.where({ ...request, beside: true }, () => expect.fail())).toBeUndefined()
  expect(ahead.where(request, () => where)).toBeDefined()
  ahead.keep(request, { output: null, took_ms: 1 })
  expect(ahead.where(request, () => expect.fail())).toBeUndefined()
})
