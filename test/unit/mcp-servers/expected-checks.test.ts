/** Expected failures of the official suites are single checks: another one that fails in the same scenario is told. */

import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { differences, readExpected, readFailed } from '../../conformance/mcp/expected-checks.ts'

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tenon-checks-'))
})
afterAll(() => rm(folder, { recursive: true }))

test('results of a run: failures and warnings, by scenario; an empty scenario counts as failed', async () => {
  const write = async (name: string, checks: object[]) => {
    await mkdir(join(folder, name))
    await writeFile(join(folder, name, 'checks.json'), JSON.stringify(checks))
  }
  await write('server-server-stateless-2026-11-28T19-23-40-741Z', [
    { id: 'a', status: 'SUCCESS' },
    { id: 'b', status: 'WARNING' },
    { id: 'c', status: 'FAILURE' },
    { id: 'd', status: 'SKIPPED' },
  ])
  await write('server-ping-2026-11-28T19-23-40-741Z', [])
  expect(await readFailed(folder)).toEqual({ 'server-stateless': ['b', 'c'], ping: ['no check ran'] })
})

test.each([
  ['the same', { s: ['a', 'b'] }, { s: ['a', 'b'] }, []],
  ['another check of a listed scenario', { s: ['a', 'b'] }, { s: ['a'] }, ['s: b does not pass']],
  ['a scenario that is not listed', { t: ['a'] }, {}, ['t: a does not pass']],
  ['a listed check passes', { s: [] }, { s: ['a'] }, ['s: a is expected to fail, and passes or did not run']],
  [
    'a listed scenario did not run',
    {},
    { s: ['a'] },
    ['s: a is expected to fail, and passes or did not run'],
  ],
])('%s: told by check', (_what, failed, expected, lines) => {
  expect(differences(failed, expected)).toEqual(lines)
})

test.each(['2025', '2025-11-25', '2026-07-28'])('list of %s: checks by scenario', async (name) => {
  const listed = await readExpected(`test/conformance/mcp/expected/${name}.yaml`)
  expect(
    Object.values(listed)
      .flat()
      .every((id) => /^[a-z0-9$-]+$/i.test(id)),
  ).toBe(true)
})
