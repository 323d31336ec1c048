/** `tenon restore` and `tenon backup create`, killed at each of their steps: run again, they end in the same state. */

import { existsSync, statSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { eventually } from '../../support/fixtures/tenants.ts'
import { type Contents, processesOf, readContents } from './contents.ts'
import type { LocalInstallation } from './local-installation.ts'
import { makeSmall } from './small-installation.ts'

/** Points of `die-at.ts`, in their order. */
const RESTORE_STEPS = [
  'says restoring PostgreSQL',
  // The server is recovering, and waits for its log.
  'rename .draft-restored.log/',
  'says restoring Temporal',
  'says setting aside',
  'rename /postgres',
  'rename /secrets.json',
  'rename .tenon/secrets.json',
  'rename .tenon/postgres',
  'says starting the servers',
  'says restoring the bytes of objects',
  'says beginning event streams anew',
  'says comparing Temporal',
  'rm restore.unfinished',
]
const CREATE_STEPS = [
  'says copying the bytes of objects',
  'says copying PostgreSQL',
  'rename /base.tar',
  'rename /backup_manifest',
  'says copying Temporal',
  'rename /temporal.db',
  'rename /wal/',
  'rename /secrets',
  'rename /blobs',
  'rename /manifest',
]
const TIMEOUT_MS = 1_800_000

let installation: LocalInstallation
let id: string
beforeAll(async () => {
  ;({ installation, id } = await makeSmall())
}, TIMEOUT_MS)
afterAll(() => installation?.remove())

const inData = (name: string) => join(installation.dir, '.tenon', name)
const folderOf = (name: string) => statSync(inData(name)).ino
const restore = () => ['restore', `--yes=${id}`]

test(
  'restore: killed at each step: nothing is replaced before the copy is complete, and the next restore ends as one that was not killed',
  async () => {
    await installation.run(...restore())
    const expected = await readContents(installation)
    expect(expected.objects.length).toBeGreaterThan(0)
    expect(expected.workflows.length).toBeGreaterThan(0)
    const wrong: [string, unknown][] = []
    for (const step of RESTORE_STEPS) {
      const before = folderOf('postgres')
      await installation.attemptUntil(step, restore())
      const isBegun = existsSync(inData('restore.unfinished'))
      if (!isBegun && folderOf('postgres') !== before) wrong.push([step, 'the data was replaced'])
      if (isBegun) {
        const { code, stderr } = await installation.attempt(['up', '--no-demo'])
        if (code !== 1 || !stderr.includes('was interrupted')) wrong.push([step, stderr])
      }
      await installation.run(...restore())
      const contents: Contents = await readContents(installation)
      expect(contents, step).toEqual(expected)
      const left = (await readdir(inData(''))).filter((name) => /draft|unfinished/.test(name))
      if (left.length > 0) wrong.push([step, left])
    }
    expect(wrong).toEqual([])
    await eventually(async () => processesOf(installation.dir).length === 0 || undefined)
  },
  TIMEOUT_MS,
)

test(
  'backup create: killed at each step: no backup is listed that is not complete, the next one works, and a prune removes what is left',
  async () => {
    await installation.withServers(async () => {
      const listed = async () => {
        const { backups } = JSON.parse(await installation.run('backup', 'list', '--json'))
        return backups.map((backup: { id: string }) => backup.id) as string[]
      }
      for (const step of CREATE_STEPS) {
        const before = await listed()
        await installation.attemptUntil(step, ['backup', 'create'])
        expect(await listed(), step).toEqual(before)
        const made = JSON.parse(await installation.run('backup', 'create', '--json'))
        expect(await listed(), step).toEqual([...before, made.id])
      }
      await eventually(async () => processesOf(inData('backup')).length === 0 || undefined)
      await installation.run('backup', 'prune', '--older-than', '0s')
      expect(await listed()).toHaveLength(1)
      const files = await readdir(join(installation.dir, 'repository'), { recursive: true })
      expect(files.filter((name) => /\.part$|^locks\/add-/.test(name))).toEqual([])
      // Of one backup: base.tar, its manifest, secrets and blobs.
      expect(files.filter((name) => /^members\/.*\//.test(name))).toHaveLength(4)
    })
    expect(JSON.parse(await installation.run('backup', 'verify', '--json'))).toMatchObject({ faults: [] })
  },
  TIMEOUT_MS,
)
