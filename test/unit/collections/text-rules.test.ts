/** Rules on objects and topics: what they cover, compared with a naive model that writes out every text. */

import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { ACCESS_LIMITS } from '../../../src/access/limits.ts'
import type { EndUser } from '../../../src/core/policy.ts'
import {
  coversKey,
  coversTopic,
  prefixRules,
  readSegments,
  topicRules,
} from '../../../src/features/collections/rules/text-rules.ts'
import { checkUserRules } from '../../../src/features/tenants/check-public-access.ts'
import { threadMs } from '../../support/thread-time.ts'

const user = (more: Partial<EndUser> = {}): EndUser => ({
  id: 'u1',
  email: 'mia@example.com',
  emailVerified: true,
  claims: {},
  ...more,
})
const withClaims = (claims: Record<string, unknown>) => user({ claims })
const keyOf = (rule: string, of: EndUser, key: string) => coversKey(prefixRules([rule]), of, key)
const topicOf = (rule: string, of: EndUser, topic: string) => coversTopic(topicRules([rule]), of, topic)

describe('rule on keys', () => {
  test.each([
    ['avatars/', 'avatars/a.png', true],
    ['avatars/', 'avatars/deep/er/a.png', true],
    ['avatars/', 'avatars/', true],
    ['avatars/', 'avatars', false],
    ['avatars/', 'avatars-old/a.png', false],
    ['avatars/', 'Avatars/a.png', false],
    ['avatars/', '/avatars/a.png', false],
    ['avatars/', '', false],
    ['private/{user.id}/', 'private/u1/a', true],
    ['private/{user.id}/', 'private/u1', false],
    ['private/{user.id}/', 'private/u10/a', false],
    ['private/{user.id}/', 'private/u2/a', false],
    ['private/{user.id}/', 'private//a', false],
    ['private/{user.id}/', 'private/{user.id}/a', false],
    ['private/{user.id}/', 'private//u1/a', false],
    ['private/u-{user.id}-x/', 'private/u-u1-x/a', true],
    ['private/u-{user.id}-x/', 'private/u-u1-y/a', false],
    ['{user.email}/', 'mia@example.com/a', true],
  ])('%s – asked for %s – %s', (rule, key, expected) => {
    expect(keyOf(rule, user(), key)).toBe(expected)
  })

  test.each(['', '.', '..', 'a/b', '/', 'a\\b', 'a\u0000', 'a\n', '\u0085', '\ud800', 7, null, {}, true, []])(
    'claim %j – covers nothing',
    (team) => {
      for (const key of ['t//a', 't/./a', 't/../a', 't/a/b/c', `t/${String(team)}/a`, 't/undefined/a', 't/a'])
        expect(keyOf('t/{user.claims.team}/', withClaims({ team }), key)).toBe(false)
    },
  )

  test('claim that is missing or inherited, and address that is not verified – cover nothing', () => {
    for (const name of ['team', '__proto__', 'constructor', 'toString'])
      expect(keyOf(`t/{user.claims.${name}}/`, user(), 't/undefined/a')).toBe(false)
    expect(keyOf('{user.email}/', user({ emailVerified: false }), 'mia@example.com/a')).toBe(false)
  })

  test('list of texts – each element counts, other elements do not', () => {
    const of = withClaims({ teams: ['red', '', '..', 7, 'a/b', 'blue'] })
    for (const [team, expected] of [
      ['red', true],
      ['blue', true],
      ['7', false],
      ['', false],
      ['..', false],
      ['red,blue', false],
    ] as const)
      expect(keyOf('t/{user.claims.teams}/', of, `t/${team}/x`)).toBe(expected)
    const many = withClaims({ teams: Array.from({ length: 500 }, (_, n) => `t${n}`) })
    expect(keyOf('t/{user.claims.teams}/', many, `t/t${ACCESS_LIMITS.ruleClaimValuesMax - 1}/x`)).toBe(true)
    expect(keyOf('t/{user.claims.teams}/', many, `t/t${ACCESS_LIMITS.ruleClaimValuesMax}/x`)).toBe(false)
  })

  test('100 rules with many claims – are matched within 100 ms of CPU time', () => {
    const of = withClaims({ a: Array.from({ length: 1_000 }, (_, n) => 'a'.repeat(n + 1)) })
    const rule = `${'{user.claims.a}/'.repeat(30)}`
    const rules = prefixRules(Array.from({ length: 100 }, (_, n) => `${rule}${n}/`))
    const started = threadMs()
    expect(coversKey(rules, of, `${`${'a'.repeat(100)}/`.repeat(30)}x/`)).toBe(false)
    expect(threadMs() - started).toBeLessThan(100)
  })
})

describe('rule on topics', () => {
  test.each([
    ['a.b', 'a.b', true],
    ['a.b', 'a.b.*', false],
    ['a.b', 'a.b.c', false],
    ['a.b', 'a', false],
    ['a.*', 'a.b', true],
    ['a.*', 'a.b.c', true],
    ['a.*', 'a.*', true],
    ['a.*', 'a.b.*', true],
    ['a.*', 'a', false],
    ['a.*', 'ab.c', false],
    ['chat.{user.id}.*', 'chat.u1.new', true],
    ['chat.{user.id}.*', 'chat.*', false],
    ['chat.{user.id}.*', 'chat.u2.new', false],
    ['chat.{user.id}', 'chat.u1', true],
    ['chat.{user.id}', 'chat.*', false],
    ['{user.email}.*', 'mia@example.com.x', false],
  ])('%s – asked for %s – %s', (rule, topic, expected) => {
    expect(topicOf(rule, user(), topic)).toBe(expected)
  })

  test.each(['', 'a.b', '*', 'a b', 'a@b', 'ü', 'a\n', 'a.*'])('claim %j – covers nothing', (region) => {
    for (const topic of ['o.*', 'o.a.b', 'o.a.*', 'o.', `o.${region}`, `o.${region}.x`, 'o.a.b.x'])
      expect(topicOf('o.{user.claims.region}.*', withClaims({ region }), topic)).toBe(false)
  })
})

describe('generated rules', () => {
  const words = ['a', 'b', 'ab', '.', '..', '', 'a/b', 'x.y']
  const claims = fc.record({
    one: fc.constantFrom<unknown>(...words, undefined, 3),
    some: fc.array(fc.constantFrom<unknown>(...words, 3, null), { maxLength: 4 }),
  })
  const part = fc.constantFrom(
    'a',
    'b',
    '{user.id}',
    '{user.claims.one}',
    '{user.claims.some}',
    'a{user.id}b',
  )
  const parts = fc.array(part, { minLength: 1, maxLength: 3 })

  /** Every text of a rule, without its end. */
  function written(
    rule: readonly string[],
    of: EndUser,
    isValue: (text: string) => boolean,
    separator: string,
  ) {
    const listed = (value: unknown) =>
      [value].flat().filter((one): one is string => typeof one === 'string' && isValue(one))
    const options = rule.map((text) => {
      if (text.includes('{user.id}')) return listed(of.id).map((id) => text.replace('{user.id}', () => id))
      if (text === '{user.claims.one}') return listed(of.claims['one'])
      return text === '{user.claims.some}' ? listed(of.claims['some']) : [text]
    })
    return options
      .reduce<string[][]>((made, next) => made.flatMap((head) => next.map((one) => [...head, one])), [[]])
      .map((one) => one.join(separator))
  }

  const id = fc.constantFrom('a', 'b', '.', '', 'a/b')

  test('prefixes – cover a key if and only if one that is written out begins it', () => {
    const key = fc
      .array(fc.constantFrom('a', 'b', 'ab', 'aab', '.', '..', '/', '//'), { maxLength: 8 })
      .map((texts) => texts.join(''))
    const isValue = (text: string) => text !== '' && !/[/\\]/.test(text) && !/^\.\.?$/.test(text)
    fc.assert(
      fc.property(fc.array(parts, { maxLength: 3 }), claims, id, key, (rules, ownClaims, name, text) => {
        const of = user({ id: name, claims: ownClaims })
        const expected = rules.some((rule) =>
          written(rule, of, isValue, '/').some((prefix) => text.startsWith(`${prefix}/`)),
        )
        expect(coversKey(prefixRules(rules.map((rule) => `${rule.join('/')}/`)), of, text)).toBe(expected)
      }),
      { numRuns: 2_000 },
    )
  })

  test('topics – cover a subscription if and only if they cover each topic that it matches', () => {
    const topic = fc.array(fc.constantFrom('a', 'b', 'ab', 'aab'), { minLength: 1, maxLength: 4 })
    const isValue = (text: string) => /^[a-z]+$/.test(text)
    // Deeper than any rule.
    const below = (pattern: string) =>
      pattern.endsWith('.*')
        ? ['b', 'a', 'zz', 'a.b.ab.a'].map((end) => pattern.replace('*', end))
        : [pattern]
    const rule = fc.record({ parts, isOpen: fc.boolean() })
    const requests = fc.record({ topic, isOpen: fc.boolean() })
    fc.assert(
      fc.property(fc.array(rule, { maxLength: 3 }), claims, id, requests, (rules, ownClaims, name, ask) => {
        const of = user({ id: name, claims: ownClaims })
        const pattern = `${ask.topic.join('.')}${ask.isOpen ? '.*' : ''}`
        const expected = rules.some(({ parts: texts, isOpen }) =>
          written(texts, of, isValue, '.').some((base) =>
            below(pattern).every((one) => (isOpen ? one.startsWith(`${base}.`) : one === base)),
          ),
        )
        const stored = rules.map(({ parts: texts, isOpen }) => `${texts.join('.')}${isOpen ? '.*' : ''}`)
        expect(coversTopic(topicRules(stored), of, pattern)).toBe(expected)
      }),
      { numRuns: 2_000 },
    )
  })

  test('any text – is read without an error, and what is stored unchecked covers no more than its own text', () => {
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom(...'a{}/.*user.id') }), (text) => {
        readSegments(text, '/')
        if (/[{}]/.test(text)) return
        expect(keyOf(text, user(), 'zzz/a')).toBe(false)
      }),
    )
  })
})

describe('check of rules', () => {
  const faultsOf = (objects: object, topics: object = {}) => {
    try {
      checkUserRules(objects, topics)
      return []
    } catch (error) {
      return (error as { errors: { pointer: string; detail: string }[] }).errors
    }
  }

  test.each([
    ['read', 'avatars/'],
    ['write', 'avatars/{user.id}/'],
    ['delete', 'a/{user.claims.team-1}/b/'],
    ['read', '{user.email}/'],
  ])('objects %s %s – is accepted', (right, text) => {
    expect(faultsOf({ [right]: [text] })).toEqual([])
  })

  test.each([
    ['', /ends with a slash/],
    ['avatars', /ends with a slash/],
    ['/avatars/', /ends with a slash/],
    ['a/../b/', /ends with a slash/],
    ['a/\n/', /ends with a slash/],
    ['avatars/*/', /no \*/],
    ['avatars/*', /no \*/],
    ['a/{user.id/', /not closed/],
    ['a/user.id}/', /not closed/],
    ['a/{{user.id}}/', /not closed/],
    ['a/{user.id}{user.email}/', /at most one variable .* slashes/],
    ['a/{user.mail}/', /Did you mean \{user\.email\}/],
    ['a/{user.ID}/', /Did you mean \{user\.id\}/],
    ['a/{id}/', /no variable \{id\}/],
    ['a/{}/', /no variable \{\}/],
    ['a/{user.claims.}/', /no variable/],
    ['a/{user.claims.a.b}/', /no variable/],
    ['a/{user.claims.a/b}/', /no variable/],
  ])('objects %j – is refused with its pointer', (text, detail) => {
    expect(faultsOf({ read: ['ok/'], write: ['ok/', text] })).toEqual([
      expect.objectContaining({ pointer: '/objects/user/write/1', detail: expect.stringMatching(detail) }),
    ])
  })

  test.each(['lobby', 'orders.{user.claims.region}.*', 'chat.{user.id}', '{user.id}.*', 'u-{user.id}.x'])(
    'topics %s – is accepted',
    (text) => {
      expect(faultsOf({}, { subscribe: [text], publish: [text] })).toEqual([])
    },
  )

  test.each([
    ['', /A topic has words/],
    ['*', /A topic has words/],
    ['a.', /A topic has words/],
    ['.a', /A topic has words/],
    ['a b', /A topic has words/],
    ['a*', /A topic has words/],
    ['a.*.b', /at the end only/],
    ['*.a', /at the end only/],
    ['a.**', /at the end only/],
    ['a.{user.email}', /address/],
    ['a.{user.id}{user.id}', /at most one variable .* dots/],
    ['a.{user.idd}', /Did you mean \{user\.id\}/],
    ['platform', /platform's own/],
    ['platform.execution.*', /platform's own/],
    ['collections.*', /platform's own/],
    ['collections.todos.{user.id}', /platform's own/],
  ])('topics %j – is refused with its pointer', (text, detail) => {
    for (const right of ['subscribe', 'publish'])
      expect(faultsOf({}, { [right]: [text] })).toEqual([
        expect.objectContaining({
          pointer: `/topics/user/${right}/0`,
          detail: expect.stringMatching(detail),
        }),
      ])
  })

  test('several rules that are malformed – are all named', () => {
    const errors = faultsOf({ read: ['a', 'b/', 'c'] }, { publish: ['*'] })
    expect(errors.map(({ pointer }) => pointer)).toEqual([
      '/objects/user/read/0',
      '/objects/user/read/2',
      '/topics/user/publish/0',
    ])
  })
})
