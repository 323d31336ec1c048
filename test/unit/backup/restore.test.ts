/** Refusals of a restore, before it changes anything. */

import { chmod, mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { momentId } from '../../../src/backup/manifests.ts'
import { planRestore, type RestorePlan } from '../../../src/backup/plan.ts'
import { openFolder } from '../../../src/backup/repository/folder-store.ts'
import { Repository } from '../../../src/backup/repository/repository.ts'
import { restoreLocal, restoringAlone } from '../../../src/backup/restore.ts'
import { tryLock } from '../../../stack/lock.mjs'
import { loadSecrets } from '../../../stack/server.ts'

let folder: string
let repository: Repository
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tenon-refusals-'))
  repository = await Repository.openOrMake(
    openFolder(join(folder, 'repository')),
    'four words in a row',
    '7512',
  )
})
afterAll(() => rm(folder, { recursive: true, force: true }))

const restore = (dir: string, yes?: string) =>
  restoreLocal({ repository, plan: {} as RestorePlan, dir, env: process.env, yes, onProgress: () => {} })

test('restore over data: not allowed, or allowed for another installation: refused with the id to name, and nothing is changed', async () => {
  const dir = join(folder, 'used')
  await mkdir(join(dir, 'postgres'), { recursive: true })
  await writeFile(join(dir, 'master.key'), 'key')
  await expect(restore(dir)).rejects.toThrow('add --yes=7512')
  await expect(restore(dir, '7513')).rejects.toThrow(`is not the installation in ${dir}, which is 7512`)
  expect((await readdir(dir)).sort()).toEqual(['master.key', 'postgres'])
})

test('restore over the data of another installation: the id to name is that of the data, and not that of the repository', async () => {
  const dir = join(folder, 'other')
  await mkdir(join(dir, 'postgres/global'), { recursive: true })
  loadSecrets(dir)
  const control = Buffer.alloc(8_192)
  control.writeBigUInt64LE(9_001n)
  await writeFile(join(dir, 'postgres/global/pg_control'), control)
  await chmod(folder, 0o711)
  await expect(restore(dir)).rejects.toThrow('add --yes=9001')
  await expect(restore(dir, '7512')).rejects.toThrow(`is not the installation in ${dir}, which is 9001`)
  expect((await readdir(dir)).sort()).toEqual(['postgres', 'secrets.json'])
})

test('restore while the platform runs: refused with its process, and nothing is changed', async () => {
  const dir = join(folder, 'running')
  await mkdir(dir)
  const lock = tryLock(join(dir, 'stack.lock'))
  try {
    await expect(restore(dir, '7512')).rejects.toThrow(
      `as process ${process.pid}. Stop it before you restore`,
    )
    expect(await readdir(dir)).toEqual(['stack.lock'])
  } finally {
    if ('release' in lock) lock.release()
  }
})

test('restore while another one of the folder runs, whose servers may run already: refused with its process, and the first ends', async () => {
  const dir = join(folder, 'twice')
  const { promise: end, resolve: finish } = Promise.withResolvers<string>()
  const first = restoringAlone(dir, () => end)
  let began = false
  const second = restoringAlone(dir, async () => {
    began = true
  })
  await expect(second).rejects.toThrow(`is under way, as process ${process.pid}. Wait for its end`)
  finish('ended')
  expect([await first, began]).toEqual(['ended', false])
  expect(await restoringAlone(dir, async () => 'next')).toBe('next')
})

test('time to restore to: in no form, in no range, or in a repository without backups: refused with the next step', async () => {
  await expect(planRestore(repository, 'latest')).rejects.toThrow('The repository has no backup.')
  await expect(planRestore(repository, 'yesterday')).rejects.toThrow(
    'such as 2026-11-29T14:30:00Z, or "latest"',
  )
  await expect(planRestore(repository, '2026-11-29T14:30:00+01:00')).rejects.toThrow('Write it in UTC')
  const at = '2026-11-29T14:30:00.000000Z'
  await repository.writeJson(`backups/${momentId(at)}/manifest`, { first_moment: { states: {} } })
  await repository.writeJson(`moments/${momentId(at)}/${momentId('2026-11-29T15:00:00.000000Z')}`, {})
  await expect(planRestore(repository, '2026-11-29T15:00:01Z')).rejects.toThrow(
    `each time from ${at} until 2026-11-29T15:00:00.000000Z`,
  )
})
