/** Exports, imports and removals of users while a server hangs or crashes, before they begin and in the middle: each waits or is refused, and ends complete once it is back. */

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { endOf, exportArchive, sendArchive } from '../support/fixtures/archives.ts'
import {
  asSuperuser,
  call,
  createTestWorkspaceWithStorage,
  eventually,
  type Reply,
  unique,
  withKeys,
} from '../support/fixtures/tenants.ts'
import { whileHeld } from '../support/servers/table-barrier.ts'
import { killServer, pidOf, type SharedPlatform, sharedPlatform } from '../support/stack/own-platform.ts'
import { bucketOf, configure } from '../support/stack/workspace-settings.ts'

let own: SharedPlatform
let bucket: string
/** Of the collection in which users have documents. */
let table: string
beforeAll(async () => {
  own = await sharedPlatform(createTestWorkspaceWithStorage)
  const at = own.started.running
  bucket = await bucketOf(own.workspace, at)
  await configure(own.workspace, { auth: { sign_up: 'invite' } }, at)
  const access = { user: { read: { _owner: '$user.id' }, create: true } }
  const diary = {
    workspace_id: own.workspace.workspaceId,
    collection: 'diary',
    store: 'relational',
    schema: {},
    access,
  }
  expect((await ask('POST', '/v1/schemas', diary)).status).toBe(201)
  const [row] = await asSuperuser<{ relation: string }>(
    'select relation from tenon.schemas where workspace_id = $1',
    [own.workspace.workspaceId],
    at,
  )
  table = `tenon_data."${row?.relation}"`
  await ask('POST', '/v1/collections/notes/documents', { n: 1 }, own.workspace.service)
  await ask('PUT', `/v1/objects/${bucket}/kept`, { n: 1 }, own.workspace.service)
})
afterAll(() => own?.end())

const ask = (method: string, path: string, body?: unknown, as = own.workspace.operator): Promise<Reply> =>
  call(method, path, { as, at: own.started.running, ...(body !== undefined && { body }) })

/** A user with a document. */
async function createUser(): Promise<string> {
  const body = { workspace_id: own.workspace.workspaceId, email: `${unique('mia')}@example.com`, name: 'Mia' }
  const made = await ask('POST', '/v1/users', body)
  expect(made.status, JSON.stringify(made.body)).toBe(201)
  const note = await ask('POST', '/v1/collections/diary/documents', { n: 2 }, own.workspace.service)
  await asSuperuser(
    `update ${table} set owner = $1 where id = $2`,
    [made.body.id, note.body.id],
    own.started.running,
  )
  expect(await documentsOf(made.body.id)).toHaveLength(1)
  return made.body.id
}

const documentsOf = async (user: string): Promise<object[]> =>
  (await ask('POST', '/v1/collections/diary/query', { filter: { _owner: user } }, own.workspace.service)).body
    .data

/** What is done, and how it is seen that nothing is missing. @param job the operation at its end */
const WORK = {
  export: {
    step: 'write_archive',
    lock: () => 'lock table tenon.function_aliases in access exclusive mode',
    prepare: async () => ({
      begin: () => ask('POST', `/v1/workspaces/${own.workspace.workspaceId}/exports`),
      // biome-ignore lint/suspicious/noExplicitAny: operations have results of every shape
      expectWhole: async (job: any) => expect(job.result.counts).toMatchObject({ objects: 1 }),
    }),
  },
  import: {
    step: 'restore_archive',
    lock: () => 'lock table tenon.documents in share row exclusive mode',
    prepare: async () => {
      const at = own.started.running
      const archive = await exportArchive(own.workspace, at)
      return {
        begin: () => sendArchive(own.workspace, archive, { at }),
        // biome-ignore lint/suspicious/noExplicitAny: operations have results of every shape
        expectWhole: async ({ target }: any) => {
          const copy = await withKeys(own.workspace, target, at)
          const notes = await ask('GET', '/v1/collections/notes/documents', undefined, copy.service)
          expect(notes.body.data).toHaveLength(1)
          const path = `/v1/objects/${await bucketOf(copy, at)}/kept`
          expect((await ask('GET', path, undefined, copy.service)).body).toEqual({ n: 1 })
        },
      }
    },
  },
  'removal of a user': {
    step: 'remove_documents_of_user',
    lock: () => `lock table ${table} in share row exclusive mode`,
    prepare: async () => {
      const user = await createUser()
      return {
        begin: () => ask('DELETE', `/v1/users/${user}?data=delete`),
        expectWhole: async () => {
          expect((await ask('GET', `/v1/users/${user}`)).status).toBe(404)
          expect(await documentsOf(user)).toEqual([])
        },
      }
    },
  },
} as const

const AWAY = [
  { server: 'seaweedfs', how: 'crashes' },
  { server: 'valkey', how: 'hangs' },
  { server: 'temporal', how: 'hangs' },
] as const

/** Lets a server go away. @returns how it comes back */
function leave({ server, how }: (typeof AWAY)[number]): () => Promise<unknown> {
  if (how === 'crashes') {
    killServer(own.started, server)
    // The supervisor has started another one by then; it gives up after some crashes, unless it is asked.
    return () => own.started.stack.supervisor.restart(server)
  }
  const pid = pidOf(own.started, server)
  process.kill(pid, 'SIGSTOP')
  return async () => process.kill(pid, 'SIGCONT')
}

describe.each(AWAY)('$server $how', (away) => {
  test.each(Object.entries(WORK))(
    '%s that is asked for meanwhile: waits, or is refused and leaves nothing, and ends complete',
    async (_name, { prepare }) => {
      const { begin, expectWhole } = await prepare()
      const workspaces = async () => {
        const reply = await ask('GET', `/v1/workspaces?tenant_id=${own.workspace.tenantId}&page[size]=200`)
        return reply.body.data?.length
      }
      const before = await workspaces()
      const comeBack = leave(away)
      const first = await endedBy(comeBack, begin())
      expect([202, 503]).toContain(first.status)
      if (first.status === 503) {
        expect(first.body).toMatchObject({ code: 'dependency_unavailable', detail: expect.any(String) })
        await eventually(async () => ((await workspaces()) === before ? true : undefined), 60_000)
      }
      const { body } =
        first.status === 202
          ? first
          : await eventually(async () => {
              const again = await begin()
              return again.status === 202 ? again : undefined
            }, 60_000)
      const job = await endOf(own.workspace, body.id, own.started.running)
      expect([job.state, job.error]).toEqual(['succeeded', null])
      await expectWhole(job)
    },
  )

  test.each(Object.entries(WORK))('%s that is under way: goes on, and ends complete', async (_name, work) => {
    const { begin, expectWhole } = await work.prepare()
    const at = own.started.running
    let comeBack: () => Promise<unknown> = async () => {}
    const id = await whileHeld(
      own,
      work.lock(),
      async () => (await begin()).body as { id: string },
      work.step,
      () => {
        comeBack = leave(away)
      },
    )
    // What needs the server waits and says why; the others end.
    const seen = eventually(async () => {
      const [row] = await asSuperuser<{ steps: { name: string; state: string; detail?: string }[] }>(
        'select steps from tenon.operations where id = $1',
        [id],
        at,
      )
      const step = row?.steps.find(({ name }) => name === work.step)
      if (step?.state === 'waiting') expect(step.detail).toMatch(/object store|Valkey|Temporal/)
      return step?.state === 'running' ? undefined : true
    }, 60_000)
    await endedBy(comeBack, seen)
    const job = await endOf(own.workspace, id, at)
    expect([job.state, job.error]).toEqual(['succeeded', null])
    await expectWhole(job)
  })
})

/** The result of work, after what has to be done whatever it is. */
async function endedBy<T>(end: () => Promise<unknown>, work: Promise<T>): Promise<T> {
  try {
    return await work
  } finally {
    await end()
  }
}
