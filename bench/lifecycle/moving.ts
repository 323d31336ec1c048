/** Measures the export and import of a workspace with a million documents beside `COPY … TO` and the import of a collection. */

import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { Client } from 'pg'
import type { Started } from '../../test/support/stack/start.ts'
import { createTestWorkspace, type TestWorkspace } from '../fixture.ts'
import { print, sized } from '../measure.ts'
import { linesTo, measured, send } from '../ndjson.ts'

const DOCUMENTS = sized(1_000_000, 2_000)

interface Operation {
  readonly id: string
  readonly state: string
  readonly error?: object | null
}

export async function moving({ running, stack }: Started): Promise<void> {
  const workspace = await createTestWorkspace(running)
  const pid = (name: 'api' | 'worker') => stack.supervisor.pid(name) ?? 0
  await send(workspace, 'warm', linesTo(sized(20_000, 100)))
  print(`${DOCUMENTS} documents`, 's', 'MiB before', 'MiB peak', 'MiB after')
  const filled = await measured('import of a collection (API)', pid('api'), () =>
    send(workspace, 'bench', linesTo(DOCUMENTS)),
  )
  const copied = await copy(running.databaseUrl, workspace)
  print('COPY … TO a file', copied)
  let archive = { path: '', bytes: Buffer.alloc(0) }
  const exported = await measured('export of the workspace (worker)', pid('worker'), async () => {
    archive = { ...archive, path: await exportWorkspace(workspace) }
  })
  const { authorization, url, tenantId } = workspace
  archive.bytes = Buffer.from(
    await (await fetch(`${url}${archive.path}`, { headers: { authorization } })).arrayBuffer(),
  )
  const imported = await measured('import of the workspace (worker)', pid('worker'), async () => {
    const response = await fetch(`${url}/v1/tenants/${tenantId}/imports?slug=copy-${Date.now()}`, {
      method: 'POST',
      headers: { authorization, 'content-type': 'application/zstd' },
      body: archive.bytes,
    })
    await ended(workspace, (await response.json()) as Operation)
  })
  print('export, rate × COPY (goal 0.5)', copied / exported)
  print('import, rate × import of a collection (goal 0.7)', filled / imported)
}

/** @returns seconds */
async function copy(databaseUrl: string, { workspaceId }: TestWorkspace): Promise<number> {
  const folder = await mkdtemp(join(tmpdir(), 'tenon-copy-'))
  // PostgreSQL writes the file, as its own user.
  await chmod(folder, 0o777)
  const client = new Client({ connectionString: databaseUrl })
  await client.connect()
  const startedMs = performance.now()
  await client.query(
    `copy (select * from tenon.documents where workspace_id = '${workspaceId}') to '${join(folder, 'copy')}'`,
  )
  const seconds = (performance.now() - startedMs) / 1_000
  await client.end()
  await rm(folder, { recursive: true, force: true })
  return seconds
}

/** @returns the path of the archive */
async function exportWorkspace(workspace: TestWorkspace): Promise<string> {
  const { admin, workspaceId, tenantId } = workspace
  const begun = await admin.call<Operation>('POST', `/v1/workspaces/${workspaceId}/exports`)
  await ended(workspace, begun)
  return `/v1/tenants/${tenantId}/archives/${begun.id}`
}

/** @throws Error if it failed */
async function ended({ admin }: TestWorkspace, { id }: Operation): Promise<void> {
  for (;;) {
    const { state, error } = await admin.get<Operation>(`/v1/operations/${id}`)
    if (state === 'succeeded') return
    if (state === 'failed' || state === 'cancelled') throw new Error(`${state}: ${JSON.stringify(error)}`)
    await pause(50)
  }
}
