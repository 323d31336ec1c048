/**
 * The whole path of a backup, in a folder and in a bucket, and its faults: a wrong passphrase, files that were altered or are gone,
 * a repository that is away or full. Each ends with one sentence, and leaves what was there.
 */

import { execFileSync } from 'node:child_process'
import { existsSync, statSync } from 'node:fs'
import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import {
  CreateBucketCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
} from '@aws-sdk/client-s3'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { rootClient } from '../../support/clients/object-store.ts'
import { unique } from '../../support/fixtures/tenants.ts'
import { type RefusingStore, startRefusingStore } from '../../support/servers/refusing-store.ts'
import { type Contents, readContents } from './contents.ts'
import type { Ended, LocalInstallation } from './local-installation.ts'
import { makeSmall } from './small-installation.ts'

const TIMEOUT_MS = 900_000

/** Bytes of an object, and of an execution's input. */
const BLOBS = 2

/** A repository, and how to change it behind the back of the platform. */
interface Place {
  readonly address: () => string
  readonly names: () => Promise<string[]>
  readonly read: (name: string) => Promise<Buffer>
  readonly write: (name: string, bytes: Buffer) => Promise<unknown>
  readonly remove: (name: string) => Promise<unknown>
  /** Runs work while nobody can reach it. What it says then. */
  readonly whileAway: <T>(work: () => Promise<T>) => Promise<T>
  readonly saysAway: RegExp
  /** Runs work while it has little room. */
  readonly whileFull: <T>(work: () => Promise<T>) => Promise<T>
}

let installation: LocalInstallation
let id: string
let expected: Contents
let proxy: RefusingStore
const bucket = unique('backups')
beforeAll(async () => {
  ;({ installation, id } = await makeSmall())
  proxy = await startRefusingStore(new URL(inject('tenon').env['S3_ENDPOINT'] ?? ''))
  await rootClient().send(new CreateBucketCommand({ Bucket: bucket }))
  await installation.run('restore', `--yes=${id}`)
  expected = await readContents(installation)
}, TIMEOUT_MS)
afterAll(async () => {
  proxy?.close()
  await installation?.remove()
})

const inFolder = (name = '') => join(installation.dir, 'other', name)
const at = (name: string) => ({ Bucket: bucket, Key: `tenon/${name}` })
async function whileRefusing<T>(fault: 'away' | 'full', work: () => Promise<T>): Promise<T> {
  proxy.fault = fault
  // In the midst of the work.
  proxy.servedBefore = 6
  try {
    return await work()
  } finally {
    proxy.fault = undefined
  }
}

const PLACES: Readonly<Record<string, Place>> = {
  folder: {
    address: inFolder,
    names: async () => {
      const entries = await readdir(inFolder(), { recursive: true, withFileTypes: true })
      return entries
        .filter((entry) => entry.isFile())
        .map((entry) => join(entry.parentPath, entry.name).slice(inFolder().length + 1))
    },
    read: (name) => readFile(inFolder(name)),
    write: (name, bytes) => writeFile(inFolder(name), bytes),
    remove: (name) => rm(inFolder(name)),
    whileAway: async (work) => {
      await rename(inFolder(), `${inFolder()}-away`)
      try {
        return await work()
      } finally {
        await rm(inFolder(), { recursive: true, force: true })
        await rename(`${inFolder()}-away`, inFolder())
      }
    },
    saysAway: /^There is no repository at .*\/other\/?\. `tenon backup create` makes one\.\n$/,
    whileFull: withSmallDisk,
  },
  bucket: {
    address: () => `s3://${bucket}/tenon`,
    names: async () => {
      const { Contents: found = [] } = await rootClient().send(
        new ListObjectsV2Command({ Bucket: bucket, Prefix: 'tenon/' }),
      )
      return found.map(({ Key = '' }) => Key.slice('tenon/'.length))
    },
    read: async (name) => {
      const { Body } = await rootClient().send(new GetObjectCommand(at(name)))
      return Buffer.from((await Body?.transformToByteArray()) ?? [])
    },
    write: (name, Body) => rootClient().send(new PutObjectCommand({ ...at(name), Body })),
    remove: (name) => rootClient().send(new DeleteObjectCommand(at(name))),
    whileAway: (work) => whileRefusing('away', work),
    saysAway:
      /The repository s3:\/\/\S+\/tenon does not answer \(\w+\)\. Run the command again when it does\.\n$/,
    whileFull: (work) => whileRefusing('full', work),
  },
}

/** Puts a disk of a megabyte in the place of the folder, with the head of the repository alone. */
async function withSmallDisk<T>(work: () => Promise<T>): Promise<T> {
  const head = await readFile(inFolder('repository.json'))
  await rename(inFolder(), `${inFolder()}-away`)
  await mkdir(inFolder())
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'tenon-full', inFolder()])
  try {
    await writeFile(inFolder('repository.json'), head)
    return await work()
  } finally {
    execFileSync('umount', [inFolder()])
    await rm(inFolder(), { recursive: true })
    await rename(`${inFolder()}-away`, inFolder())
  }
}

const canMount = process.getuid?.() === 0

describe.each(Object.keys(PLACES))('repository in a %s', (kind) => {
  const place = PLACES[kind] as Place
  const env = (more: NodeJS.ProcessEnv = {}) => ({
    TENON_BACKUP_REPOSITORY: place.address(),
    AWS_ENDPOINT_URL_S3: proxy.url,
    AWS_ACCESS_KEY_ID: inject('tenon').env['S3_ACCESS_KEY_ID'],
    AWS_SECRET_ACCESS_KEY: inject('tenon').env['S3_SECRET_ACCESS_KEY'],
    ...more,
  })
  const run = (...args: string[]) => installation.attempt(args, env())
  async function succeed(...args: string[]): Promise<Ended> {
    const ended = await run(...args)
    expect([args, ended.code], ended.stderr).toEqual([args, 0])
    return ended
  }
  const json = async (...args: string[]) => {
    const { stdout } = await succeed(...args, '--json')
    return JSON.parse(stdout)
  }
  const listed = async (): Promise<string[]> =>
    (await json('backup', 'list')).backups.map((backup: { id: string }) => backup.id)
  /** One sentence or two on stderr, behind what tells of progress; nothing on stdout. */
  function expectRefused({ code, stdout, stderr }: Ended, text: RegExp | string): void {
    const lines = stderr.split('\n').filter((line) => line !== '' && !line.endsWith(' …'))
    expect([code, stdout, lines], stderr).toEqual([1, '', [expect.any(String)]])
    expect(`${lines[0]}\n`).toMatch(text)
  }
  const data = () => statSync(join(installation.dir, '.tenon/postgres')).ino

  test(
    'all commands: each says the same as JSON, and a restore gives back what was there',
    async () => {
      await installation.withServers(async () => {
        const { stderr } = await succeed('backup', 'create')
        expect(stderr).toMatch(/There was no repository at .*: it was made\. Keep its passphrase/)
        const second = await json('backup', 'create', '--incremental')
        expect(second).toEqual({
          id: second.id,
          kind: 'incremental',
          at: expect.any(String),
          not_included: [],
        })
      })
      const { installation: named, backups, ranges } = await json('backup', 'list')
      expect([named, backups.length, ranges.length]).toEqual([id, 2, 2])
      expect(await json('backup', 'verify')).toMatchObject({
        to: ranges[1].until,
        faults: [],
        blobs: BLOBS,
        read: BLOBS,
      })
      const age = ['backup', 'prune', '--older-than', '0s']
      // The incremental one needs the full one.
      expect(await json(...age, '--dry-run')).toMatchObject({ backups: [] })
      expect(await json(...age)).toMatchObject({ backups: [] })
      expect(await listed()).toHaveLength(2)
      await rm(join(installation.dir, '.tenon'), { recursive: true })
      expect(await json('restore')).toEqual({
        ...{ to: ranges[1].until, purged_again: 0, blobs_written: 1, faults: [] },
        ...{ workflows_ended: 0, schedules_removed: 0, jobs_begun: 0 },
      })
      expect(await readContents(installation)).toEqual(expected)
      await installation.withServers(async () => {
        const { to } = await json('restore', 'finish')
        expect(to).toBe(ranges[1].until)
        expect(await json('restore', 'finish')).toEqual({ to: null, resumed: 0 })
      })
    },
    TIMEOUT_MS,
  )

  test(
    'restore over data: without the id of the installation, or with another one: refused, and nothing is replaced',
    async () => {
      const before = data()
      expectRefused(await run('restore'), `To allow it, add --yes=${id}, the id of the installation.`)
      expectRefused(await run('restore', '--yes=1'), `--yes=1 is not the installation in`)
      expect(data()).toBe(before)
    },
    TIMEOUT_MS,
  )

  test(
    'backup, and restore, asked for by two people at once: one is done, and the other is refused with its process',
    async () => {
      const twice = async (...args: string[]) => {
        const both = await Promise.all([run(...args), run(...args)])
        expect(both.map(({ code }) => code).sort(), both.map(({ stderr }) => stderr).join()).toEqual([0, 1])
        return both.find(({ code }) => code === 1) as Ended
      }
      await installation.withServers(async () => {
        const before = (await listed()).length
        expectRefused(
          await twice('backup', 'create'),
          /A backup is being made already, by process \d+\. Wait/,
        )
        expect(await listed()).toHaveLength(before + 1)
      })
      expectRefused(
        await twice('restore', `--yes=${id}`),
        /Another restore of .* is under way, as process \d+\. Wait/,
      )
      expect(await readContents(installation)).toEqual(expected)
    },
    TIMEOUT_MS,
  )

  test(
    'passphrase: wrong: every command says so, and nothing is replaced',
    async () => {
      const before = data()
      const wrong = { TENON_BACKUP_PASSPHRASE: 'five words in a row' }
      for (const args of [
        ['backup', 'list'],
        ['backup', 'verify'],
        ['backup', 'prune'],
        ['restore', `--yes=${id}`],
      ])
        expectRefused(
          await installation.attempt(args, env(wrong)),
          'The passphrase does not open this repository.',
        )
      await installation.withServers(async () => {
        expectRefused(
          await installation.attempt(['backup', 'create'], env(wrong)),
          'The passphrase does not open this repository.',
        )
      })
      expect(data()).toBe(before)
    },
    TIMEOUT_MS,
  )

  test(
    'files: a manifest or a copy that was altered, or a segment of the log that is gone: a restore and a verify say so, and nothing is replaced',
    async () => {
      const before = data()
      const names = await place.names()
      const named = (text: string) => names.findLast((name) => name.includes(text)) ?? ''
      for (const name of [named('/manifest'), named('/base.tar')]) {
        const right = await place.read(name)
        const changed = Buffer.from(right)
        changed[right.length - 1] = (changed[right.length - 1] ?? 0) ^ 1
        await place.write(name, changed)
        expectRefused(
          await run('restore', `--yes=${id}`),
          /\S+ cannot be decrypted: .*\. It was altered, or belongs to/,
        )
        expectRefused(await run('backup', 'verify'), /It was altered, or belongs to another repository\.$/m)
        await place.write(name, right)
      }
      const segment = named('wal/')
      const right = await place.read(segment)
      await place.remove(segment)
      expectRefused(await run('restore', `--yes=${id}`), `has no file ${segment}.`)
      expectRefused(await run('backup', 'verify'), `has no file ${segment}.`)
      await place.write(segment, right)
      expect(data()).toBe(before)
      expect(existsSync(join(installation.dir, '.tenon/restore.unfinished'))).toBe(false)
    },
    TIMEOUT_MS,
  )

  test(
    'object or payload: its bytes are gone from the repository, or were altered there: all others are restored, it is named, and the exit code is 2',
    async () => {
      const names = (await place.names()).filter((one) => one.includes('objects/'))
      expect(names).toHaveLength(BLOBS)
      for (const name of names) {
        const right = await place.read(name)
        for (const [bytes, text] of [
          [undefined, /The bytes \S+ of an object in the bucket \S+ are in no backup\./],
          [
            right.subarray(0, -1),
            /The bytes \S+ of an object in the bucket \S+ were altered in the repository/,
          ],
        ] as const) {
          await (bytes === undefined ? place.remove(name) : place.write(name, bytes))
          const { code, stdout, stderr } = await run('restore', `--yes=${id}`)
          expect(code, stderr).toBe(2)
          expect(stdout).toMatch(text)
          expect((await run('backup', 'verify')).code).toBe(2)
        }
        await place.write(name, right)
      }
      await succeed('restore', `--yes=${id}`)
      expect(await readContents(installation)).toEqual(expected)
    },
    TIMEOUT_MS,
  )

  test(
    'repository: away during a backup or a restore: one sentence, and the next ones work',
    async () => {
      const before = data()
      const backups = await listed()
      await installation.withServers(async () => {
        if (kind === 'bucket')
          expectRefused(await place.whileAway(() => run('backup', 'create')), place.saysAway)
        expect(await listed()).toEqual(backups)
      })
      expectRefused(await place.whileAway(() => run('restore', `--yes=${id}`)), place.saysAway)
      expect(data()).toBe(before)
      await succeed('restore', `--yes=${id}`)
      expect(await readContents(installation)).toEqual(expected)
    },
    TIMEOUT_MS,
  )

  test.runIf(kind === 'bucket' || canMount)(
    'repository: full: the backup names it and what to do, nothing is listed, and the next one works',
    async () => {
      await installation.withServers(async () => {
        await place.whileFull(async () => {
          const ended = await run('backup', 'create')
          expectRefused(
            ended,
            /The disk of the repository \S+ is full\. Free space there, or remove old backups with/,
          )
        })
        if (kind === 'folder')
          await place.whileFull(async () => {
            await run('backup', 'create')
            expect(await listed()).toEqual([])
            await succeed('backup', 'prune')
            expect((await place.names()).filter((name) => !name.startsWith('locks/'))).toEqual([
              'repository.json',
            ])
          })
        const before = await listed()
        await succeed('backup', 'create')
        expect(await listed()).toHaveLength(before.length + 1)
      })
    },
    TIMEOUT_MS,
  )
})

test(
  'backup with a document store: says that its documents are not included, also as JSON; a restore says that they stay as they are',
  async () => {
    const env = { MONGODB_URL: 'mongodb://127.0.0.1:9/' }
    await installation.withServers(async () => {
      const { stdout, stderr } = await installation.attempt(['backup', 'create', '--json'], env)
      expect(stderr).toContain(
        'MongoDB is not part of the backup: documents of collections in the document store',
      )
      expect(JSON.parse(stdout)).toMatchObject({ not_included: ['mongodb'] })
    })
    const { stderr } = await installation.attempt(['restore', `--yes=${id}`], env)
    expect(stderr).toContain('MongoDB was not part of the backup: its documents stay as they are.')
  },
  TIMEOUT_MS,
)
