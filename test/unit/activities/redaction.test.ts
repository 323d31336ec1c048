/** Redaction of secrets in the inputs and results of a call, in every usual encoding. */

import { ApplicationFailure } from '@temporalio/common'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Suspended } from '../../../src/access/tenant-states.ts'
import { callFailure } from '../../../src/activities/call-failure.ts'
import { CallSecrets } from '../../../src/activities/flow/call-secrets.ts'
import { CallHttpClient } from '../../../src/activities/http/call-http-client.ts'
import { Tokens } from '../../../src/activities/http/oauth-tokens.ts'
import { sendHttp } from '../../../src/activities/http/request-secrets.ts'
import { inForm, inJson } from '../../../src/activities/secret-redactor.ts'
import { escapePointer } from '../../../src/core/json.ts'
import { Problem } from '../../../src/core/problem.ts'
import { handleOf, isHandle, withoutHandles } from '../../../src/core/secret-handle.ts'
import type { Json } from '../../../src/core/work.ts'
import { FLOW_LIMITS } from '../../../src/features/flows/limits.ts'
import { Egress } from '../../../src/infra/http-client/egress.ts'
import { FakeServers } from '../../support/servers/fake-servers.ts'

const handle = (name: string) => handleOf(name, name.replaceAll('.', '_').padEnd(43, '-'))

/** Secret values by name. */
function secrecyOf(texts: Readonly<Record<string, string>>): CallSecrets {
  const byHandle = Object.entries(texts).map(([name, text]) => [handle(name), text] as const)
  return new CallSecrets(new Map(Object.entries(texts)), new Map(byHandle))
}

const secret = fc
  .string({ unit: 'grapheme', minLength: 8, maxLength: 40 })
  .filter((text) => !/\p{Surrogate}/u.test(text) && text.length >= 8)
const around = fc.string({ unit: 'grapheme', maxLength: 12 })

describe('results', () => {
  test('contain no secret, at any location and in any usual encoding', () => {
    const spellings: readonly ((text: string) => string)[] = [
      (text) => text,
      inJson,
      encodeURIComponent,
      inForm,
      (text) => encodeURIComponent(text).replaceAll(/%../g, (code) => code.toLowerCase()),
      (text) => new URL(`http://x/?${encodeURIComponent(text)}`).search,
      escapePointer,
      (text) => text.toLowerCase(),
      (text) => Buffer.from(text).toString('hex'),
      (text) => Buffer.from(text).toString('hex').toUpperCase(),
    ]
    fc.assert(
      fc.property(secret, around, around, fc.nat(spellings.length - 1), (text, before, after, which) => {
        const spelled = spellings[which]?.(text) ?? ''
        const said = { [before + spelled]: [before + spelled + after, { a: spelled }] }
        const redacted = secrecyOf({ key: text }).redactOutput(said)
        expect(JSON.stringify(redacted)).not.toContain(JSON.stringify(spelled).slice(1, -1))
      }),
      { numRuns: 500 },
    )
  })

  test('contain no secret in base64, at any byte offset', () => {
    fc.assert(
      fc.property(secret, around, around, fc.boolean(), (text, before, after, isUrl) => {
        const whole = Buffer.from(before + text + after).toString(isUrl ? 'base64url' : 'base64')
        expect(secrecyOf({ key: text }).redactOutput(whole)).toContain('***')
      }),
      { numRuns: 500 },
    )
  })

  test('contain no secret in a host of a URL, a JSON pointer or hexadecimal digits', () => {
    const text = 'Key/of~A1b2C3d4'
    const hex = Buffer.from(text).toString('hex')
    const said = [new URL('https://Key-Of-A1b2.example').host, `/a/${escapePointer(text)}/0`, `0x${hex}`]
    const redacted = secrecyOf({ key: text, host: 'Key-Of-A1b2' }).redactOutput([...said, hex.toUpperCase()])
    expect(redacted).toEqual(['***.example', '/a/***/0', '0x***', '***'])
  })

  test('contain the handle in place of the value, which may be passed on', () => {
    const secrecy = secrecyOf({ key: 'abcdefgh', longer: 'abcdefgh-ijkl', digits: '12345678' })
    const said = { a: 'Bearer abcdefgh!', b: 'abcdefgh-ijkl', n: 12_345_678, m: 123 }
    const redacted = secrecy.redactOutput(said) as Json
    expect(redacted).toEqual({
      a: `Bearer ${handle('key')}!`,
      b: handle('longer'),
      n: handle('digits'),
      m: 123,
    })
    expect(secrecy.resolveHandles(redacted)).toEqual({ ...said, n: '12345678' })
  })

  test('contain no handle that the call was not given', () => {
    const secrecy = secrecyOf({ key: 'abcdefgh', other: 'ijklmnop' })
    secrecy.resolveHandles(handle('key'))
    expect(secrecy.redactOutput([handle('key'), handle('other'), `x${handle('foreign')}`])).toEqual([
      handle('key'),
      '***',
      'x***',
    ])
  })

  test('short values that are no secrets: stay unchanged', () => {
    expect(secrecyOf({ name: 'ada' }).redactOutput('adapted')).toBe('adapted')
  })

  test('failures: message, details, properties and cause are redacted, too', () => {
    const secrecy = secrecyOf({ key: 'abcdefgh' })
    const text = 'said abcdefgh'
    const failure = secrecy.redactFailure(callFailure('communication', text)) as ApplicationFailure
    expect(failure).toBeInstanceOf(ApplicationFailure)
    expect(failure).toMatchObject({ type: 'communication', nonRetryable: true })
    const cause = new Error(text, { cause: Object.assign(new TypeError(text), { detail: text }) })
    const problem = secrecy.redactFailure(
      new Problem('function_error', { detail: text, hint: text, members: { logs: [text] }, cause }),
    ) as Problem
    expect(problem).toMatchObject({ code: 'function_error', members: { logs: [`said ${handle('key')}`] } })
    const plain = secrecy.redactFailure(new TypeError(text)) as Error
    expect(plain.name).toBe('TypeError')
    for (const error of [failure, problem, plain]) {
      const { cause: why } = error as { cause?: Error }
      const all = [error.message, error.stack, JSON.stringify(error), why?.message, why?.stack, why?.cause]
      expect(all.map(String).join()).not.toContain('abcdefgh')
      expect(error.message).toBe(`said ${handle('key')}`)
    }
    const suspended = new Suspended('tenant_suspended', 1)
    expect(secrecy.redactFailure(suspended)).toBe(suspended)
  })
})

describe('arguments', () => {
  test('unknown handle: is an error at any location', () => {
    const secrecy = secrecyOf({ key: 'abcdefgh' })
    expect(secrecy.resolveHandles({ a: [handle('key')] })).toEqual({ a: ['abcdefgh'] })
    const attempt = () => secrecy.resolveHandles({ a: [`x ${handle('gone')}`] })
    expect(attempt).toThrow('The secret `gone` no longer exists')
    expect(() => secrecy.valueOf('gone')).toThrow('`gone`')
  })

  test('secrets: the size of a call with them is bounded', () => {
    const text = 'x'.repeat(FLOW_LIMITS.secretBytesMax)
    const many = Array.from({ length: FLOW_LIMITS.stepInputBytesMax / text.length + 1 }, () => handle('key'))
    expect(() => secrecyOf({ key: text }).resolveHandles(many)).toThrow('too large')
  })

  test('handles: are recognised by their form alone', () => {
    expect([handle('a.b-c'), `${handle('a')} `, '', 'tenonsecret~a~b'].map(isHandle)).toEqual([
      true,
      false,
      false,
      false,
    ])
    const data = { [handle('a')]: [`x${handle('a')}y`, 'tenonsecret~'] }
    expect(withoutHandles(data)).toEqual({ '***': ['x***y', 'tenonsecret~'] })
    const plain = { a: 1 }
    expect(withoutHandles(plain)).toBe(plain)
  })
})

describe('requests', () => {
  let fakeServers: FakeServers
  beforeAll(async () => {
    fakeServers = await FakeServers.open()
  })
  afterAll(() => fakeServers.close())
  const key = 'a "b" & c=d\n/é'

  async function sent(call: { [name: string]: Json }) {
    const way = {
      http: new CallHttpClient(new Egress([]), { allowed: [fakeServers.host] }),
      tokens: new Tokens(),
      workflowId: 'run-1',
    }
    await sendHttp(
      { method: 'POST', ...call },
      way,
      secrecyOf({ key, base: `${fakeServers.origin}/echo/based` }),
    )
    return fakeServers.requests.at(-1)
  }

  test('secret: is encoded for its location in the request', async () => {
    const endpoint = `${fakeServers.origin}/echo`
    const json = { 'Content-Type': 'application/json; charset=utf-8' }
    const form = { 'content-type': 'application/x-www-form-urlencoded' }
    const inText = await sent({ endpoint, headers: json, body: `{"a":"${handle('key')}"}` })
    expect(JSON.parse(inText?.body ?? '')).toEqual({ a: key })
    const inForms = await sent({ endpoint, headers: form, body: `a=${handle('key')}&b=1` })
    expect([...new URLSearchParams(inForms?.body)]).toEqual([
      ['a', key],
      ['b', '1'],
    ])
    expect((await sent({ endpoint, headers: json, body: handle('key') }))?.body).toBe(key)
    expect((await sent({ endpoint, body: `${handle('key')}!` }))?.body).toBe(`${key}!`)
    const inAddress = await sent({ endpoint: `${handle('base')}/${handle('key')}?k=${handle('key')}` })
    const url = new URL(inAddress?.url ?? '', 'http://x')
    expect(decodeURIComponent(url.pathname)).toBe(`/echo/based/${key}`)
    expect([...url.searchParams]).toEqual([['k', key]])
  })
})
