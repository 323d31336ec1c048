/** Approvers: names, exclusions, and what decisions amount to. */

import { expect, test } from 'vitest'
import {
  approverOf,
  countApprovers,
  excludedBy,
  refusalOf,
  tooFew,
  verdictOf,
} from '../../../flows-dsl/tasks/approvers.ts'

const NONE = new Map<string, string>()
const approvers = ['ada', 'mia@example.test', 'group:finance']

test.each([
  [{ by: 'ada' }, 'ada'],
  [{ by: 'Mia@Example.test' }, 'mia@example.test'],
  [{ by: 'acct_1', as: ['MIA@example.test'] }, 'mia@example.test'],
  [{ by: 'acct_2', as: ['role:service', 'group:finance'] }, 'group:finance'],
  [{ by: 'group:finance' }, undefined],
  [{ by: 'eve', as: ['group:other'] }, undefined],
  [{ by: 'eve', as: 'group:finance' }, undefined],
])('decision %j: counts for %s', (decision, approver) => {
  expect(approverOf({ approvers }, decision)).toBe(approver)
})

test('count: one address in other letters is one person, a group any number', () => {
  expect(countApprovers(['a@b.test', 'A@B.test', 'ada', 'ada'])).toBe(2)
  expect(countApprovers(['group:finance'])).toBe(Number.POSITIVE_INFINITY)
})

test('exclusion: names the starter of the execution and the authors of its changed data', () => {
  const excluded = excludedBy({ startedBy: 'ada', changedBy: ['bob'] })
  expect(tooFew(2, ['ada', 'bob', 'cyd'], excluded)).toBe(
    '2 must approve, and only 1 may: ada has started the execution, bob has changed its data and are not counted (fourEyes).',
  )
  expect(tooFew(2, ['ada', 'role:service'], excluded)).toBeUndefined()
  expect(tooFew(1, [], NONE)).toBe('1 must approve, and only 0 may.')
  const voting = { approvers: ['role:service'], quorum: 1, decisions: [] }
  expect(refusalOf(voting, { by: 'bob', as: ['role:service'] }, excluded)).toContain('has changed its data')
})

test('verdict: with a group, the first rejection rejects; without one, when the quorum is out of reach', () => {
  const no = { by: 'x', approved: false }
  expect(verdictOf({ approvers: ['group:a', 'b'], quorum: 1, decisions: [no] })).toBe(false)
  expect(
    verdictOf({ approvers: ['group:a'], quorum: 2, decisions: [{ by: 'y', approved: true }] }),
  ).toBeUndefined()
  expect(verdictOf({ approvers: ['a', 'b'], quorum: 1, decisions: [no] })).toBeUndefined()
  expect(verdictOf({ approvers: ['a', 'b'], quorum: 2, decisions: [no] })).toBe(false)
})
