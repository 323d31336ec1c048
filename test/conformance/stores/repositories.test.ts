/**
 * Repositories in a folder and in a bucket of S3: passphrases, installations, files that are there complete or not at all, what their
 * manifests say, what excludes a prune, and stores that are away or full.
 */

import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  CreateBucketCommand,
  CreateMultipartUploadCommand,
  GetObjectCommand,
  ListMultipartUploadsCommand,
  ListObjectsV2Command,
  PutObjectCommand,
} from '@aws-sdk/client-s3'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { openBucket } from '../../../src/backup/repository/bucket-store.ts'
import type { FileStore } from '../../../src/backup/repository/file-store.ts'
import { openFolder } from '../../../src/backup/repository/folder-store.ts'
import { Repository } from '../../../src/backup/repository/repository.ts'
import { WrongPassphrase } from '../../../src/backup/repository/repository-key.ts'
import { type Chunks, SealBroken } from '../../../src/backup/repository/sealed-stream.ts'
import { rootClient } from '../../support/clients/object-store.ts'
import { unique } from '../../support/fixtures/tenants.ts'
import { type RefusingStore, startRefusingStore } from '../../support/servers/refusing-store.ts'

const PASSPHRASE = 'four words in a row'

/** A place of repositories, and how to look at its bytes, and change them, behind the back of the platform. */
interface Place {
  readonly open: (name: string) => FileStore
  readonly read: (repository: string, name: string) => Promise<Buffer>
  readonly write: (repository: string, name: string, bytes: Buffer) => Promise<void>
  /** Names of everything, also of what is not complete. */
  readonly names: (repository: string) => Promise<string[]>
  /** Leaves what a process leaves that is killed in the midst of a file. */
  readonly leavePart: (repository: string) => Promise<void>
}

let folder: string
let proxy: RefusingStore
const bucket = unique('repository')
const s3 = () => rootClient()
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tenon-repository-'))
  const { env } = inject('tenon')
  proxy = await startRefusingStore(new URL(env['S3_ENDPOINT'] ?? ''))
  await s3().send(new CreateBucketCommand({ Bucket: bucket }))
})
afterAll(async () => {
  proxy?.close()
  await rm(folder, { recursive: true, force: true })
})

const settingsOf = () => {
  const { S3_ACCESS_KEY_ID, S3_SECRET_ACCESS_KEY } = inject('tenon').env
  return {
    AWS_ENDPOINT_URL_S3: proxy.url,
    AWS_ACCESS_KEY_ID: S3_ACCESS_KEY_ID,
    AWS_SECRET_ACCESS_KEY: S3_SECRET_ACCESS_KEY,
  }
}
const inFolder = (repository: string, name = '') => join(folder, repository, name)
const inBucket = (repository: string, name = '') => ({ Bucket: bucket, Key: `all/${repository}/${name}` })
const PLACES: Readonly<Record<string, Place>> = {
  folder: {
    open: (name) => openFolder(inFolder(name)),
    read: (repository, name) => readFile(inFolder(repository, name)),
    write: (repository, name, bytes) => writeFile(inFolder(repository, name), bytes),
    names: async (repository) => {
      const entries = await readdir(inFolder(repository), { recursive: true, withFileTypes: true })
      return entries.filter((entry) => entry.isFile()).map(({ name }) => name)
    },
    leavePart: async (repository) => {
      await writeFile(inFolder(repository, 'members/base.tar.77.part'), 'half')
      await writeFile(inFolder(repository, 'locks/add-dead'), '')
    },
  },
  bucket: {
    open: (name) => openBucket(`s3://${bucket}/all/${name}`, settingsOf()),
    read: async (repository, name) => {
      const { Body } = await s3().send(new GetObjectCommand(inBucket(repository, name)))
      return Buffer.from((await Body?.transformToByteArray()) ?? [])
    },
    write: async (repository, name, Body) => {
      await s3().send(new PutObjectCommand({ ...inBucket(repository, name), Body }))
    },
    names: async (repository) => {
      const { Bucket, Key: Prefix } = inBucket(repository)
      const { Contents = [] } = await s3().send(new ListObjectsV2Command({ Bucket, Prefix }))
      const { Uploads = [] } = await s3().send(new ListMultipartUploadsCommand({ Bucket, Prefix }))
      return [...Contents, ...Uploads].map(({ Key = '' }) => Key)
    },
    leavePart: async (repository) => {
      await s3().send(new CreateMultipartUploadCommand(inBucket(repository, 'members/base.tar.77.part')))
    },
  },
}

async function* once(text: string): Chunks {
  yield Buffer.from(text)
}

async function readAll(chunks: Chunks): Promise<Buffer> {
  const all: Buffer[] = []
  for await (const chunk of chunks) all.push(chunk)
  return Buffer.concat(all)
}

describe.each(Object.keys(PLACES))('in a %s', (kind) => {
  const place = PLACES[kind] as Place
  /** Made once: a passphrase costs a third of a second, on purpose. */
  let repository: Repository
  beforeAll(async () => {
    repository = await Repository.openOrMake(place.open('one'), PASSPHRASE, '1')
  })
  afterAll(() => repository.close())

  test('repository: opened with the passphrase that it was made with: gives its files back; with another one, or by another installation: refused', async () => {
    await repository.writeJson('members/1/secrets', { key: 'secret-of-the-installation' })
    const again = await Repository.open(place.open('one'), PASSPHRASE)
    expect(await again.readJson('members/1/secrets')).toEqual({ key: 'secret-of-the-installation' })
    await expect(Repository.open(place.open('one'), 'five words in a row')).rejects.toThrow(WrongPassphrase)
    await expect(Repository.openOrMake(place.open('one'), PASSPHRASE, '2')).rejects.toThrow(
      /is that of the installation 1, and this one is 2/,
    )
    for (const { name } of await repository.list(''))
      expect((await place.read('one', name)).toString('latin1')).not.toContain('secret-of-the-installation')
  })

  test('repository: none, a short passphrase, or a damaged head: refused with the next step', async () => {
    const none = place.open('none')
    await expect(Repository.open(none, PASSPHRASE)).rejects.toThrow(/`tenon backup create` makes one/)
    await expect(Repository.openOrMake(none, 'short', '1')).rejects.toThrow(/at least 12 characters/)
    const head = await place.read('one', 'repository.json')
    for (const text of [head.subarray(0, -30), '{"format":1,"key":{"salt":""}}', 'null']) {
      await place.write('one', 'repository.json', Buffer.from(text))
      await expect(Repository.open(place.open('one'), PASSPHRASE)).rejects.toThrow(
        /repository\.json of the repository .*one is damaged\. Put back a copy of it\.$/,
      )
    }
    await place.write('one', 'repository.json', Buffer.from('{"format":2}'))
    await expect(Repository.open(place.open('one'), PASSPHRASE)).rejects.toThrow(/has the format 2/)
    await place.write('one', 'repository.json', head)
  })

  test('file: its source fails half-way: there is no such file, nothing is left, and the error is that of the source', async () => {
    async function* failing(): Chunks {
      // Of a bucket, the first part is there then.
      for (let n = 0; n < 3; n += 1) yield Buffer.alloc(17_000_000)
      throw new Error('the server is gone')
    }
    await expect(repository.write('members/2/base.tar', failing())).rejects.toThrow('the server is gone')
    await expect(repository.writeCompressed('members/2/base.tar', failing())).rejects.toThrow(
      'the server is gone',
    )
    expect(await repository.list('members/2/')).toEqual([])
    expect((await place.names('one')).filter((name) => name.includes('base.tar'))).toEqual([])
  })

  test('file: of several parts: comes back as it was written; it is listed with its size until it is removed', async () => {
    const bytes = Buffer.alloc(36_000_000, 'large ')
    async function* cut(): Chunks {
      for (let at = 0; at < bytes.length; at += 9_999_999) yield bytes.subarray(at, at + 9_999_999)
    }
    const member = await repository.write('members/3/large', cut())
    expect(await repository.list('members/3/')).toEqual([{ name: 'members/3/large', size: member.size }])
    await expect(repository.check(member)).resolves.toBeUndefined()
    expect((await readAll(repository.read('members/3/large'))).equals(bytes)).toBe(true)
    expect(await repository.store.has('members/3/large')).toBe(true)
    await repository.store.remove('members/3/large')
    await repository.store.remove('members/3/large')
    expect(await repository.store.has('members/3/large')).toBe(false)
    await expect(readAll(repository.read('members/3/large'))).rejects.toThrow(/has no file members\/3\/large/)
  })

  test('file: altered, cut or given to another name in the store: its manifest and its content say so', async () => {
    const member = await repository.write('members/1/a', once('the first'))
    await repository.write('members/1/b', once('the other'))
    await expect(repository.check(member)).resolves.toBeUndefined()
    const right = await place.read('one', 'members/1/a')
    const changed = Buffer.from(right)
    changed[25] = (changed[25] ?? 0) ^ 1
    for (const wrong of [changed, right.subarray(0, -1), await place.read('one', 'members/1/b')]) {
      await place.write('one', 'members/1/a', wrong)
      await expect(repository.check(member)).rejects.toThrow(SealBroken)
      await expect(readAll(repository.read('members/1/a'))).rejects.toThrow(SealBroken)
    }
  })

  test('prune: while a backup adds files: waits for its end; a backup that begins meanwhile waits for the prune', async () => {
    const { store } = repository
    const order: string[] = []
    const [backup, prune, isAdding, isPruning] = Array.from({ length: 4 }, () =>
      Promise.withResolvers<void>(),
    )
    const adding = store.sharing(async () => {
      order.push('backup begins')
      isAdding?.resolve()
      await backup?.promise
      order.push('backup ends')
    })
    await isAdding?.promise
    const pruning = store.exclusively(async () => {
      order.push('prune begins')
      isPruning?.resolve()
      await prune?.promise
      order.push('prune ends')
    })
    backup?.resolve()
    await adding
    await isPruning?.promise
    const later = store.sharing(async () => void order.push('next backup'))
    prune?.resolve()
    await Promise.all([pruning, later])
    expect(order).toEqual(['backup begins', 'backup ends', 'prune begins', 'prune ends', 'next backup'])
  })

  test('prunes: several at once: one after the other, and each removes what killed processes have left', async () => {
    const { store } = repository
    await place.leavePart('one')
    let running = 0
    let most = 0
    const prune = () =>
      store.exclusively(async () => {
        running += 1
        most = Math.max(most, running)
        await store.list('')
        running -= 1
      })
    await Promise.all([prune(), prune(), prune()])
    expect(most).toBe(1)
    expect((await place.names('one')).filter((name) => /\.77\.part|add-dead/.test(name))).toEqual([])
  })
})

test('repository in a bucket: the store is away, full, refuses, or has no such bucket: one sentence that names the repository', async () => {
  const address = `s3://${bucket}/faults`
  const settings = settingsOf()
  const store = openBucket(address, settings)
  const faults = {
    away: `The repository ${address} does not answer (`,
    full: `The disk of the repository ${address} is full. Free space there, or remove old backups with`,
    'full account': `The disk of the repository ${address} is full.`,
    error: `The repository ${address} fails (InternalError, 500: `,
  } as const
  try {
    for (const [fault, sentence] of Object.entries(faults)) {
      proxy.fault = fault as keyof typeof faults
      await expect(store.write('members/1/a', once('a')), fault).rejects.toThrow(sentence)
    }
    proxy.fault = undefined
    await expect(openBucket('s3://no-such-bucket-at-all', settings).list('')).rejects.toThrow(
      'The repository s3://no-such-bucket-at-all has no such bucket. Create it',
    )
    const wrong = { ...settings, AWS_SECRET_ACCESS_KEY: 'wrong' }
    await expect(openBucket(address, wrong).write('a', once('a'))).rejects.toThrow(
      /refuses the credentials \(SignatureDoesNotMatch\)/,
    )
  } finally {
    proxy.fault = undefined
    store.close()
  }
  expect(() => openBucket('s3:bucket', settings)).toThrow(
    'Write a folder, s3://bucket, or s3://bucket/folder.',
  )
})

test('lock in a bucket: of a process that was killed: excludes until it is old, and the next prune removes it', async () => {
  const address = `s3://${bucket}/locks-of-the-dead`
  const store = openBucket(address, settingsOf(), 3_000)
  await store.write('locks/prune-dead', once('lock'))
  await store.sharing(async () => {
    const { Contents = [] } = await s3().send(
      new ListObjectsV2Command({ Bucket: bucket, Prefix: 'locks-of-the-dead/locks/' }),
    )
    const [own, dead] = Contents.map(({ LastModified }) => LastModified?.getTime() ?? 0)
    expect((own ?? 0) - (dead ?? 0)).toBeGreaterThan(3_000)
  })
  await store.exclusively(async () => {})
  expect(await store.list('locks/')).toEqual([])
  store.close()
})

test('lock in a bucket: cannot be renewed: the process writes nothing any more, since another one may prune', async () => {
  const store = openBucket(`s3://${bucket}/locks-lost`, settingsOf(), 3_000)
  const writeOne = () =>
    store.write('members/1/a', once('a')).then(
      () => 'written',
      ({ message }: Error) => message,
    )
  await store.sharing(async () => {
    expect(await writeOne()).toBe('written')
    proxy.fault = 'error'
    try {
      await expect.poll(writeOne).toMatch(/The lock of this command .* was not renewed in time/)
    } finally {
      proxy.fault = undefined
    }
  })
  store.close()
})
