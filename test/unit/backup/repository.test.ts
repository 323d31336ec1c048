/** Repositories in a folder: passphrases, installations, files that are there complete or not at all, and what their manifests say. */

import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openFolder } from '../../../src/backup/repository/folder-store.ts'
import { Repository } from '../../../src/backup/repository/repository.ts'
import { WrongPassphrase } from '../../../src/backup/repository/repository-key.ts'
import { type Chunks, SealBroken } from '../../../src/backup/repository/sealed-stream.ts'

const PASSPHRASE = 'four words in a row'

/** Made once: a passphrase costs a third of a second, on purpose. */
let folder: string
let repository: Repository
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tenon-repository-'))
  repository = await Repository.openOrMake(openFolder(folder), PASSPHRASE, '1')
})
afterAll(() => rm(folder, { recursive: true, force: true }))

async function* once(text: string): Chunks {
  yield Buffer.from(text)
}

test('repository: opened with the passphrase that it was made with: gives its files back; with another one, or by another installation: refused', async () => {
  await repository.writeJson('members/1/secrets', { key: 'secret-of-the-installation' })
  const again = await Repository.open(openFolder(folder), PASSPHRASE)
  expect(await again.readJson('members/1/secrets')).toEqual({ key: 'secret-of-the-installation' })
  await expect(Repository.open(openFolder(folder), 'five words in a row')).rejects.toThrow(WrongPassphrase)
  await expect(Repository.openOrMake(openFolder(folder), PASSPHRASE, '2')).rejects.toThrow(
    /is that of the installation 1, and this one is 2/,
  )
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true }))
    if (entry.isFile())
      expect(await readFile(join(entry.parentPath, entry.name), 'latin1')).not.toContain(
        'secret-of-the-installation',
      )
})

test('repository: no repository, or a passphrase that is short: refused with the next step', async () => {
  const none = openFolder(join(folder, 'none'))
  await expect(Repository.open(none, PASSPHRASE)).rejects.toThrow(/`tenon backup create` makes one/)
  await expect(Repository.openOrMake(none, 'short', '1')).rejects.toThrow(/at least 12 characters/)
})

test('file: its source fails half-way: there is no such file, and the error is that of the source', async () => {
  async function* failing(): Chunks {
    yield Buffer.alloc(3_000_000)
    throw new Error('the server is gone')
  }
  await expect(repository.write('members/2/base.tar', failing())).rejects.toThrow('the server is gone')
  await expect(repository.writeCompressed('members/2/base.tar', failing())).rejects.toThrow(
    'the server is gone',
  )
  expect(await repository.list('members/2/')).toEqual([])
  expect(await readdir(join(folder, 'members/2'))).toEqual([])
})

test('file: altered, cut or given to another name on the disk: its manifest and its content say so', async () => {
  const member = await repository.write('members/1/a', once('the first'))
  await repository.write('members/1/b', once('the other'))
  await expect(repository.check(member)).resolves.toBeUndefined()
  const path = join(folder, 'members/1/a')
  const right = await readFile(path)
  const read = async () => {
    for await (const _ of repository.read('members/1/a'));
  }
  const changed = Buffer.from(right)
  changed[25] = (changed[25] ?? 0) ^ 1
  for (const wrong of [changed, right.subarray(0, -1), await readFile(join(folder, 'members/1/b'))]) {
    await writeFile(path, wrong)
    await expect(repository.check(member)).rejects.toThrow(SealBroken)
    await expect(read()).rejects.toThrow(SealBroken)
  }
})

test('prune: while a backup adds files: waits for its end; a backup that begins meanwhile waits for the prune', async () => {
  const { store } = repository
  const order: string[] = []
  const backup = Promise.withResolvers<void>()
  const prune = Promise.withResolvers<void>()
  const adding = store.sharing(async () => {
    order.push('backup begins')
    await backup.promise
    order.push('backup ends')
  })
  const pruning = store.exclusively(async () => {
    order.push('prune begins')
    await prune.promise
    order.push('prune ends')
  })
  backup.resolve()
  await adding
  await expect.poll(() => order).toContain('prune begins')
  const later = store.sharing(async () => void order.push('next backup'))
  prune.resolve()
  await Promise.all([pruning, later])
  expect(order).toEqual(['backup begins', 'backup ends', 'prune begins', 'prune ends', 'next backup'])
})
