/** Which times a repository can be restored to, and names of segments of PostgreSQL's log. */

import { array, assert, integer, property } from 'fast-check'
import { expect, test } from 'vitest'
import { type Chain, chainFor, momentId, momentTime, rangesOf } from '../../../src/backup/manifests.ts'
import { nextSegment, parseSegment } from '../../../src/backup/postgres/wal-names.ts'

const timeOf = (second: number) =>
  `${new Date(1_800_000_000_000 + second * 1_000).toISOString().slice(0, -1)}000Z`

/** A chain for each start; its moments follow at these distances. */
const chainsOf = (starts: readonly (readonly number[])[]): Chain[] =>
  starts
    .map(([start = 0, ...steps]) => {
      let second = start
      const moments = [start, ...steps.map((step) => (second += step))].map((at) => momentId(timeOf(at)))
      return { id: moments[0] ?? '', moments }
    })
    .sort((left, right) => (left.id < right.id ? -1 : 1))

test('restorable times: any backups and moments: a time is given a chain if and only if a chain reaches from before it to after it', () => {
  const seconds = integer({ min: 0, max: 60 })
  assert(
    property(
      array(array(seconds, { minLength: 1, maxLength: 4 }), { maxLength: 4 }),
      seconds,
      (starts, wanted) => {
        const chains = chainsOf(starts)
        const time = timeOf(wanted)
        const reaching = chains.filter(
          ({ moments }) => momentId(time) >= (moments[0] ?? '') && momentId(time) <= (moments.at(-1) ?? ''),
        )
        const isIn = rangesOf(chains).some(({ from, until }) => from <= time && time <= until)
        expect(isIn).toBe(reaching.length > 0)
        if (reaching.length > 0) expect(chainFor(chains, time)).toBe(reaching.at(-1))
        else expect(() => chainFor(chains, time)).toThrow()
      },
    ),
    { seed: 1, numRuns: 500 },
  )
})

test('time outside of the restorable ones: refused with the ranges, those that meet as one', () => {
  const chains = chainsOf([
    [0, 10, 5],
    [12, 20],
    [100, 1],
  ])
  expect(() => chainFor(chains, timeOf(50))).toThrow(
    `${timeOf(50)} cannot be restored. What can be restored is each time from ${timeOf(0)} until ${timeOf(32)}, or from ${timeOf(100)} until ${timeOf(101)}`,
  )
  expect(() => chainFor([], timeOf(1))).toThrow('The repository has no backup.')
  expect(momentTime(momentId(timeOf(7)))).toBe(timeOf(7))
})

test('segments of the log: the last one of a log: the first one of the next log follows', () => {
  expect(nextSegment('000000010000000A000000FF')).toBe('000000010000000B00000000')
  expect(nextSegment('000000020000000000000001')).toBe('000000020000000000000002')
  expect(parseSegment('000000020000000000000001.partial')).toBeUndefined()
  expect(parseSegment('00000002.history')).toBeUndefined()
})
