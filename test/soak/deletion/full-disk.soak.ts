/**
 * A disk that is full while a workspace is deleted, and while it is purged: each request is refused or kept, the purge ends once there is
 * room, and the neighbour has every document that was acknowledged. Needs the right to mount. `npm run test:soak -- deletion`.
 */

import { execFileSync } from 'node:child_process'
import { closeSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  addTestWorkspaceWithStorage,
  asSuperuser,
  call as callAt,
  createTestWorkspaceWithStorage,
  eventually,
  type TestWorkspace,
} from '../../support/fixtures/tenants.ts'
import { type Started, startPlatform } from '../../support/stack/start.ts'

const canMount = process.getuid?.() === 0
if (!canMount) console.log('skipped: a full disk needs the right to mount (root)')

const DISK_MB = 900
const DOCUMENTS = 200
const MINUTES = 60_000

let dir: string
let started: Started
let neighbour: TestWorkspace
/** The documents that the neighbour was told are stored. */
const acknowledged = new Set<string>()

beforeAll(async () => {
  if (!canMount) return
  dir = mkdtempSync(join(tmpdir(), 'tenon-full-'))
  execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${DISK_MB}m`, 'tenon-full', dir])
  started = await startPlatform(dir, { lasting: true })
  neighbour = await createTestWorkspaceWithStorage(started.running)
}, 5 * MINUTES)
afterAll(async () => {
  if (!canMount) return
  await started?.stop()
  execFileSync('umount', ['--lazy', dir])
  rmSync(dir, { recursive: true, force: true })
})

const call = (method: string, path: string, options: Parameters<typeof callAt>[2] = {}) =>
  callAt(method, path, { ...options, at: started.running })

/** Fills the disk to its last byte while work is done. */
async function whileFull<T>(work: () => Promise<T>): Promise<T> {
  const path = join(dir, 'filler')
  const file = openSync(path, 'w')
  const fill = () => {
    for (let bytes = 1 << 20; bytes >= 512; bytes >>= 1)
      try {
        for (;;) writeSync(file, Buffer.alloc(bytes))
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error
      }
  }
  fill()
  // What servers free is taken again.
  const again = setInterval(fill, 100)
  try {
    return await work()
  } finally {
    clearInterval(again)
    closeSync(file)
    rmSync(path)
  }
}

/** Writes documents of the neighbour one after the other. @returns what refused ones were answered with */
async function writeMeanwhile(count: number): Promise<string[]> {
  const refused: string[] = []
  for (let n = 0; n < count; n++) {
    const body = { n, filling: 'x'.repeat(10_000) }
    const reply = await call('POST', '/v1/collections/notes/documents', { as: neighbour.service, body })
    if (reply.status === 201) acknowledged.add(reply.body.id)
    else refused.push(`${reply.status} ${reply.body.code}`)
  }
  return refused
}

async function doomedWorkspace(): Promise<TestWorkspace> {
  const doomed = await addTestWorkspaceWithStorage(neighbour, started.running)
  for (let n = 0; n < DOCUMENTS; n++)
    await call('POST', '/v1/collections/notes/documents', { as: doomed.service, body: { n } })
  return doomed
}

const documentsOf = async ({ workspaceId }: TestWorkspace) =>
  asSuperuser<{ id: string }>(
    'select id from tenon.documents where workspace_id = $1',
    [workspaceId],
    started.running,
  )

/** Deletes a workspace, as often as it takes. @returns what refused requests were answered with */
async function deleteUntilKept({ workspaceId, operator: as }: TestWorkspace): Promise<string[]> {
  const refused: string[] = []
  await eventually(async () => {
    const reply = await call('DELETE', `/v1/workspaces/${workspaceId}?grace_days=0`, { as })
    if (reply.status === 202) return true
    refused.push(`${reply.status} ${reply.body.code}`)
    return undefined
  }, 5 * MINUTES)
  return refused
}

const untilPurged = ({ workspaceId, operator: as }: TestWorkspace) =>
  eventually(async () => {
    const { body } = await call('GET', `/v1/workspaces/${workspaceId}`, { as })
    return body.code === 'not_found' || body.state === 'deleted' || undefined
  }, 10 * MINUTES)

async function expectNothingLost(): Promise<void> {
  const stored = new Set((await documentsOf(neighbour)).map(({ id }) => id))
  expect([...acknowledged].filter((id) => !stored.has(id))).toEqual([])
}

test.runIf(canMount)(
  'disk full: a deletion is refused or kept; with room again, it is purged, and nothing of the neighbour is lost',
  async () => {
    const doomed = await doomedWorkspace()
    const refused = await whileFull(async () => [
      ...(await writeMeanwhile(100)),
      ...(await Promise.all(
        Array.from({ length: 5 }, async () => {
          const { workspaceId, operator: as } = doomed
          const { status, body } = await call('DELETE', `/v1/workspaces/${workspaceId}?grace_days=0`, { as })
          return `${status} ${body.code}`
        }),
      )),
    ])
    console.log(
      'while the disk was full',
      Object.entries(Object.groupBy(refused, (one) => one)).map(([what, all]) => `${what}: ${all?.length}`),
    )
    expect(refused.filter((one) => one.startsWith('500'))).toEqual([])
    await deleteUntilKept(doomed)
    await untilPurged(doomed)
    expect(await documentsOf(doomed)).toEqual([])
    await eventually(async () => (await writeMeanwhile(1)).length === 0 || undefined, 5 * MINUTES)
    await expectNothingLost()
  },
  30 * MINUTES,
)

test.runIf(canMount)(
  'disk full during a purge: it waits, and ends with room again',
  async () => {
    const doomed = await doomedWorkspace()
    await deleteUntilKept(doomed)
    const refused = await whileFull(() => writeMeanwhile(300))
    console.log(
      'while the disk was full',
      Object.entries(Object.groupBy(refused, (one) => one)).map(([what, all]) => `${what}: ${all?.length}`),
    )
    expect(refused.filter((one) => one.startsWith('500'))).toEqual([])
    await untilPurged(doomed)
    expect(await documentsOf(doomed)).toEqual([])
    await expectNothingLost()
  },
  30 * MINUTES,
)
