/** Reads the contents of all stores of an installation, so that two restores can be compared. */

import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { ListBucketsCommand, paginateListObjectsV2, S3Client } from '@aws-sdk/client-s3'
import { Connection, Client as Temporal } from '@temporalio/client'
import { Client } from 'pg'
import type { LocalInstallation } from './local-installation.ts'

export interface Contents {
  /** By table: number and digest of the rows. */
  readonly rows: Readonly<Record<string, string>>
  /** Bucket, key, size and entity tag. */
  readonly objects: readonly string[]
  /** Ids of open workflows, and of schedules. */
  readonly workflows: readonly string[]
  /** By file: digest. */
  readonly secrets: Readonly<Record<string, string>>
}

/** Columns with the time of the restore itself. */
const VOLATILE = ['updated_at', 'due_at', 'expires_at', 'restored_at', 'restored_to']

export const readContents = (installation: LocalInstallation): Promise<Contents> =>
  installation.withServers(async (env) => ({
    rows: await readRows(env['DATABASE_URL'] ?? ''),
    objects: await readObjects(env),
    workflows: await readWorkflows(env['TEMPORAL_ADDRESS'] ?? ''),
    secrets: await readSecrets(join(installation.dir, '.tenon')),
  }))

export async function readRows(url: string): Promise<Record<string, string>> {
  const database = new Client({ connectionString: url })
  await database.connect()
  try {
    const { rows: tables } = await database.query<{ name: string }>(
      `select oid::regclass::text as name from pg_class where relkind in ('r', 'p') and not relispartition
         and relnamespace in ('tenon'::regnamespace, 'public'::regnamespace) order by 1`,
    )
    const found: Record<string, string> = {}
    for (const { name } of tables) {
      const { rows } = await database.query<{ text: string }>(
        `select count(*) || ' ' || md5(coalesce(string_agg(line, E'\\n' order by line), '')) as text
         from (select (to_jsonb(t) - $1::text[])::text as line from ${name} t) lines`,
        [VOLATILE],
      )
      found[name] = rows[0]?.text ?? ''
    }
    return found
  } finally {
    await database.end()
  }
}

async function readObjects(env: Readonly<Record<string, string>>): Promise<string[]> {
  const s3 = new S3Client({
    ...{ endpoint: env['S3_ENDPOINT'] ?? '', region: 'us-east-1', forcePathStyle: true },
    credentials: {
      accessKeyId: env['S3_ACCESS_KEY_ID'] ?? '',
      secretAccessKey: env['S3_SECRET_ACCESS_KEY'] ?? '',
    },
  })
  const found: string[] = []
  const { Buckets = [] } = await s3.send(new ListBucketsCommand({}))
  for (const { Name: Bucket = '' } of Buckets)
    for await (const { Contents: objects = [] } of paginateListObjectsV2({ client: s3 }, { Bucket }))
      for (const { Key, Size, ETag } of objects) found.push(`${Bucket} ${Key} ${Size} ${ETag}`)
  s3.destroy()
  return found.sort()
}

async function readWorkflows(address: string): Promise<string[]> {
  const connection = await Connection.connect({ address })
  try {
    const { workflow, schedule } = new Temporal({ connection })
    const found: string[] = []
    for await (const { workflowId } of workflow.list({ query: 'ExecutionStatus = "Running"' }))
      found.push(workflowId)
    for await (const { scheduleId } of schedule.list()) found.push(`schedule ${scheduleId}`)
    return found.sort()
  } finally {
    await connection.close()
  }
}

async function readSecrets(folder: string): Promise<Record<string, string>> {
  const names = ['secrets.json', 'master.key'].filter((name) => existsSync(join(folder, name)))
  const digest = async (name: string) =>
    createHash('sha256')
      .update(await readFile(join(folder, name)))
      .digest('hex')
  return Object.fromEntries(await Promise.all(names.map(async (name) => [name, await digest(name)] as const)))
}

/** Commands of the processes that use a folder: as the place that they run in, or as an argument. */
export function processesOf(folder: string): string[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
    .flatMap((pid) => {
      try {
        const command = readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ').trim()
        const isIn = readlinkSync(`/proc/${pid}/cwd`).startsWith(folder)
        return isIn || command.includes(folder) ? [command] : []
      } catch {
        // It has ended meanwhile.
        return []
      }
    })
}
