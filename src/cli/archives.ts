/** `tenon workspace|tenant export|import`: moves a workspace or a tenant as an archive. */

import { openAsBlob } from 'node:fs'
import type { Command } from 'commander'
import { downloadTo } from './objects/download.ts'
import type { Operation } from './operations/operation-view.ts'
import {
  finishOperation,
  NO_WAIT_FLAG,
  type WatchOptions,
  watchOperation,
} from './operations/watch-operation.ts'
import { JSON_FLAG, printRecord } from './output.ts'
import { adminClient, callerPath, need, readSettings } from './settings.ts'
import { addVerb } from './verb.ts'

interface Archive {
  readonly bytes: number
  readonly sha256: string
}

type Noun = 'workspace' | 'tenant'

/** Watches an export, downloads the archive to a file, and prints what it has. */
const exporting =
  (noun: Noun) =>
  async (id: string, { out, ...options }: WatchOptions & { readonly out: string }): Promise<number> => {
    const client = await adminClient()
    const begun = await client.call<Operation>('POST', `/v1/${noun}s/${encodeURIComponent(id)}/exports`)
    if (options.wait === false) return finishOperation(begun, options)
    const ended = await watchOperation(begun.id)
    if (ended.state !== 'succeeded') return finishOperation(ended, options)
    const path = `/v1/tenants/${ended.tenant_id}/archives/${ended.id}`
    await downloadTo(await adminClient(), { path, name: out }, callerPath(out))
    const { archive, counts, missing } = ended.result as {
      archive: Archive
      counts: object
      missing: string[]
    }
    return printRecord({ file: out, bytes: archive.bytes, sha256: archive.sha256, counts, missing }, options)
  }

interface ImportOptions extends WatchOptions {
  readonly tenant?: string
  readonly name?: string
  readonly slug?: string
  readonly bucket?: string
  readonly environment?: string
}

/** Sends an archive, watches the import, and prints what it has made with what has to be set by hand. */
const importing =
  (noun: Noun) =>
  async (
    file: string,
    { tenant, name, slug, bucket, environment, ...options }: ImportOptions,
  ): Promise<number> => {
    const client = await adminClient()
    const within = async () =>
      `/${encodeURIComponent(tenant ?? need(await readSettings(), 'TENON_TENANT_ID'))}`
    const path = `/v1/tenants${noun === 'workspace' ? await within() : ''}/imports`
    const named = Object.entries({ name, slug, bucket, environment }).filter(
      (entry): entry is [string, string] => entry[1] !== undefined,
    )
    const response = await client.send('POST', `${path}?${new URLSearchParams(named)}`, {
      headers: { 'content-type': 'application/zstd' },
      body: await openAsBlob(callerPath(file)),
    })
    const begun = (await response.json()) as Operation
    const result = async () => {
      const ended = await (await adminClient()).get<Operation>(`/v1/operations/${begun.id}`)
      return { [`${noun}_id`]: ended.target, ...(ended.result as object) }
    }
    return finishOperation(begun, options, { result })
  }

export function archiveVerbs(program: Command): void {
  addArchiveVerbs(program, 'workspace', 'Manage workspaces.', [
    ['--tenant <id>', 'Tenant of the new workspace. Default: TENON_TENANT_ID.'],
    ['--bucket <name>', 'Name of its bucket. Default: derived from the slug.'],
    ['--environment <name>', 'Environment: development or production. Default: that of the archive.'],
  ])
  addArchiveVerbs(program, 'tenant', 'Manage tenants.', [])
}

function addArchiveVerbs(
  program: Command,
  noun: Noun,
  description: string,
  flags: readonly (readonly [string, string])[],
): void {
  const group =
    program.commands.find((one) => one.name() === noun) ?? program.command(noun).description(description)
  const what = noun === 'tenant' ? 'a tenant and its workspaces have, but their' : 'a workspace has, but its'
  addVerb(
    group,
    'export <id>',
    `Export all that ${what} secrets, to an archive (tar, zstd), and download it.`,
    exporting(noun),
    [NO_WAIT_FLAG, JSON_FLAG],
  ).requiredOption('--out <file>', 'File for the archive.')
  addVerb(
    group,
    'import <file>',
    `Make a new ${noun} of an archive. It can be used when all of it is there.`,
    importing(noun),
    [
      ...flags,
      ['--name <name>', `Name of the new ${noun}. Default: that of the archive.`],
      ['--slug <slug>', `Slug of the new ${noun}. Default: that of the archive.`],
      NO_WAIT_FLAG,
      JSON_FLAG,
    ],
  )
}
