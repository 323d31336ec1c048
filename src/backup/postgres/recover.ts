/** Makes a data directory of PostgreSQL from a repository, as it was at a time. */

import { spawn } from 'node:child_process'
import { closeSync, openSync } from 'node:fs'
import { chown, mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { Client } from 'pg'
import type { Backup } from '../manifests.ts'
import type { Repository } from '../repository/repository.ts'
import { withScratch } from '../scratch.ts'
import { type LogOptions, prepareLog, restoreCommand, serveLog } from './log-server.ts'
import { BoundProgram, feed, openTo, type Programs, runProgram } from './programs.ts'
import { parseSegment } from './wal-names.ts'

export interface Recovery {
  readonly repository: Repository
  readonly programs: Programs
  /** A full backup, and the incremental ones up to the one to restore. */
  readonly backups: readonly Backup[]
  /** The last segment that the time needs. */
  readonly lastWal: string
  /** RFC 3339. */
  readonly to: string
  /** A folder that does not exist yet. */
  readonly data: string
}

/**
 * @param work gets a connection of a superuser to the recovered database, which nobody else can reach
 * @throws Error with the end of PostgreSQL's log if it does not reach the time; FileMissing, SealBroken
 */
export async function recover<T>(recovery: Recovery, work: (database: Client) => Promise<T>): Promise<T> {
  const { programs, repository, backups, lastWal, data } = recovery
  const last = backups.at(-1)
  if (last === undefined) throw new TypeError('there is no backup to restore')
  await makeFiles(recovery)
  const log: LogOptions = {
    ...{ repository, programs, folder: `${data}.log` },
    ...{ first: last.first_wal, copied: last.last_wal, last: lastWal },
  }
  const ending = new AbortController()
  let serving: Promise<void> | undefined
  try {
    await prepareLog(log)
    const failure = serveLog(log, ending.signal)
    // It may still write a segment ahead of what was needed, when the folder is removed.
    serving = failure.catch(() => {})
    return await withScratch(async (scratch) => {
      await openTo(programs, scratch)
      return withServer(recovery, { scratch, log: log.folder, failure }, last, work)
    })
  } finally {
    ending.abort()
    await serving
    await rm(log.folder, { recursive: true, force: true })
  }
}

async function makeOwned({ account }: Programs, folder: string): Promise<string> {
  await mkdir(folder, { recursive: true, mode: 0o700 })
  if (account) await chown(folder, account.uid, account.gid)
  return folder
}

/** Unpacks the copies, and combines incremental ones with what they are based on. */
async function makeFiles({ repository, programs, backups, data }: Recovery): Promise<void> {
  const folders: string[] = []
  try {
    for (const { base } of backups) {
      const folder = await makeOwned(programs, `${data}.part-${folders.length}`)
      folders.push(folder)
      const tar = spawn('tar', ['--extract', '--file=-', `--directory=${folder}`], {
        ...{ stdio: ['pipe', 'ignore', 'pipe'], cwd: '/', ...programs.account },
      })
      await feed('tar', tar, repository.readCompressed(base.name))
    }
    const [only = '', ...others] = folders
    if (others.length === 0) await rename(only, data)
    else {
      // The account of the server may make no folder there.
      await makeOwned(programs, data)
      await runProgram(programs, 'pg_combinebackup', ['--output', data, ...folders], { asServer: true })
    }
  } finally {
    await Promise.all(folders.map((folder) => rm(folder, { recursive: true, force: true })))
  }
}

interface ServerOptions {
  readonly scratch: string
  readonly log: string
  /** Rejects if the log cannot be served. */
  readonly failure: Promise<void>
}

/** Starts PostgreSQL on a socket that only this process and the account of the server can reach, and ends it. */
async function withServer<T>(
  { programs, data, to, lastWal }: Recovery,
  { scratch, log, failure }: ServerOptions,
  { role, database }: Backup,
  work: (database: Client) => Promise<T>,
): Promise<T> {
  await writeFile(join(scratch, 'hba'), 'local all all trust\n', { mode: 0o644 })
  await writeFile(join(scratch, 'conf'), settings({ scratch, log, to, lastWal }), { mode: 0o644 })
  await writeFile(join(data, 'recovery.signal'), '', { mode: 0o600 })
  if (programs.account) await chown(join(data, 'recovery.signal'), programs.account.uid, programs.account.gid)
  const output = openSync(join(scratch, 'output'), 'a', 0o600)
  const args = [
    '-D',
    data,
    '-c',
    `config_file=${join(scratch, 'conf')}`,
    '-c',
    `hba_file=${join(scratch, 'hba')}`,
  ]
  const server = new BoundProgram(join(programs.bin, 'postgres'), args, {
    ...{ stdio: ['ignore', output, output], ...programs.account },
  })
  closeSync(output)
  const explain = async () => {
    const text = await readFile(join(scratch, 'output'), 'utf8').catch(() => '')
    return new Error(`PostgreSQL does not recover:\n${text.trimEnd().split('\n').slice(-15).join('\n')}`)
  }
  try {
    const connect = () =>
      connectWhenReady({ host: scratch, user: role, database }, () => server.child.exitCode === null)
    const client = await Promise.race([connect(), failure.then(() => new Promise<never>(() => {}))])
    if (client === undefined) throw await explain()
    try {
      return await work(client)
    } finally {
      await client.end()
    }
  } finally {
    await server.end()
  }
}

/** Those of the restored server, such as its number of connections, do not matter, since nobody connects until it is recovered. */
const settings = ({
  scratch,
  log,
  to,
  lastWal,
}: {
  scratch: string
  log: string
  to: string
  lastWal: string
}): string =>
  Object.entries({
    ...{ listen_addresses: '', unix_socket_directories: scratch, hot_standby: 'off', autovacuum: 'off' },
    restore_command: restoreCommand(log),
    // PostgreSQL knows no abbreviations of zones, such as Z, before it has read its settings.
    recovery_target_time: to.replace('Z', '+00'),
    recovery_target_timeline: String(parseSegment(lastWal)?.timeline),
    recovery_target_action: 'promote',
  })
    .map(([name, value]) => `${name} = '${value.replaceAll("'", "''")}'\n`)
    .join('')

/** @returns undefined if the server has ended before */
async function connectWhenReady(
  login: { host: string; user: string; database: string },
  isRunning: () => boolean,
): Promise<Client | undefined> {
  while (isRunning()) {
    const client = new Client({ ...login, port: 5432 })
    client.on('error', () => {})
    try {
      await client.connect()
      const { rows } = await client.query<{ recovering: boolean }>('select pg_is_in_recovery() as recovering')
      if (rows[0]?.recovering === false) {
        await client.query('set search_path = tenon, pg_catalog')
        return client
      }
    } catch {
      // Until it has recovered, it refuses connections.
    }
    await client.end().catch(() => {})
    await pause(100)
  }
  return undefined
}
