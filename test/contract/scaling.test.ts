/** Checks that the tables of connections in docs/scaling.md have the numbers of the limits. */

import { readdirSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { COLLECTION_LIMITS } from '../../src/features/collections/limits.ts'
import { describeConfig } from '../../src/infra/config.ts'

const PAGE = readFileSync('docs/scaling.md', 'utf8')

/** The numbers of a row of a table, which begins with this cell. */
const rowOf = (first: string): number[] =>
  (new RegExp(`^\\| ${first} \\|(.*)\\|$`, 'm').exec(PAGE)?.[1] ?? '')
    .split('|')
    .flatMap((cell) => (cell.trim() === '' ? [] : [Number(cell)]))

/** Tasks that one worker does, each with a connection of its own with which all workers stand for election. */
const ELECTIONS = readdirSync('src', { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.ts'))
  .flatMap((name) => readFileSync(`src/${name}`, 'utf8').match(/new LeaderTask\(/g) ?? []).length

const POOL = Number(describeConfig().find(({ name }) => name === 'DATABASE_POOL_MAX')?.default)
const PROBE = 1
const API = POOL + PROBE
const WORKER = POOL + ELECTIONS + COLLECTION_LIMITS.indexBuildsMax + PROBE

test('connections of a process: by the page: are those of its pool, elections, index builds and probe', () => {
  expect(rowOf('API')).toEqual([POOL, PROBE, API])
  expect(rowOf('worker')).toEqual([POOL, ELECTIONS, COLLECTION_LIMITS.indexBuildsMax, PROBE, WORKER])
  const [, ofApi, ofWorker] =
    /an API needs that many and (\d+), a worker that many and (\d+)/.exec(PAGE) ?? []
  expect([ofApi, ofWorker].map(Number)).toEqual([API - POOL, WORKER - POOL])
})

test.each([1, 2, 4, 8])('connections of %d APIs with workers: by the page: are the sum', (apis) => {
  const sums = [1, 2, 4, 8].map((workers) => apis * API + workers * WORKER)
  expect(rowOf(apis === 1 ? '1 API' : `${apis} APIs`)).toEqual(sums)
})
