/** PostgreSQL's data folder: made whole or not at all, and healed where an earlier run was cut short. */

import { spawn } from 'node:child_process'
import { existsSync, readFileSync, readlinkSync, realpathSync } from 'node:fs'
import { chown, mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { identify } from './lock.mjs'
import type { Account, PostgresHome } from './postgres-home.ts'

const MAJOR = '18'
const ORPHAN_MS = 6_000

/** Makes sure of a data folder that this PostgreSQL can start from. The caller holds the installation's lock. */
export async function prepareData(home: PostgresHome, password: string): Promise<void> {
  await removeDrafts(home.data)
  if (existsSync(join(home.data, 'PG_VERSION'))) {
    const major = (await readFile(join(home.data, 'PG_VERSION'), 'utf8')).trim()
    if (major !== MAJOR)
      throw new Error(`${home.data} was written by PostgreSQL ${major}, this one is ${MAJOR}`)
    return removeStalePidFile(home.data)
  }
  if (existsSync(home.data)) await rename(home.data, `${home.data}.broken-${Date.now()}`)
  await initialise(home, password)
}

async function initialise(home: PostgresHome, password: string): Promise<void> {
  const draft = `${home.data}.draft`
  const passwordFile = `${home.data}.draft-password`
  await mkdir(draft, { recursive: true, mode: 0o700 })
  await writeFile(passwordFile, password, { mode: 0o600 })
  if (home.account !== undefined) {
    await chown(draft, home.account.uid, home.account.gid)
    await chown(passwordFile, home.account.uid, home.account.gid)
  }
  const args = [
    ...['-D', draft, '--username=postgres', `--pwfile=${passwordFile}`, '--auth=scram-sha-256'],
    ...['--encoding=UTF8', '--locale-provider=builtin', '--builtin-locale=C.UTF-8', '--locale=C'],
    // The folder is renamed afterwards, and a crash before that starts anew.
    '--no-sync',
  ]
  try {
    await runAs(home.account, join(home.bin, 'initdb'), args)
    await rename(draft, home.data)
  } finally {
    await rm(passwordFile, { force: true })
  }
}

/** Left by a start that was cut short. */
async function removeDrafts(data: string): Promise<void> {
  const names = await readdir(dirname(data)).catch(() => [])
  const drafts = names.filter((name) => name.startsWith(`${basename(data)}.draft`))
  await Promise.all(drafts.map((name) => rm(join(dirname(data), name), { recursive: true, force: true })))
}

/**
 * PostgreSQL refuses to start where the pid in its file lives, whosever it is. Ours is gone a few seconds
 * after its parent; a process that is not PostgreSQL in this folder is a stranger and is left alone.
 */
async function removeStalePidFile(data: string): Promise<void> {
  const file = join(data, 'postmaster.pid')
  const deadline = Date.now() + ORPHAN_MS
  while (existsSync(file)) {
    const pid = Number(readFileSync(file, 'utf8').split('\n')[0])
    if (!Number.isInteger(pid) || pid <= 0 || !isPostgresOf(pid, data)) return rm(file, { force: true })
    if (Date.now() > deadline)
      throw new Error(`Another PostgreSQL (pid ${pid}) runs in ${data}; stop it first`)
    await delay(100)
  }
}

function isPostgresOf(pid: number, data: string): boolean {
  if (identify(pid) === undefined) return false
  if (process.platform !== 'linux') return true
  try {
    return readlinkSync(`/proc/${pid}/cwd`) === realpathSync(data)
  } catch {
    // Not ours to look at: then it is not the user that we run PostgreSQL as.
    return false
  }
}

function runAs(account: Account | undefined, command: string, args: readonly string[]): Promise<void> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, {
      ...account,
      cwd: '/',
      env: { PATH: process.env['PATH'] },
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    let complaint = ''
    child.stderr.on('data', (chunk) => (complaint += String(chunk)))
    child.once('error', reject)
    child.once('close', (code) =>
      code === 0 ? resolve() : reject(new Error(`initdb failed: ${complaint.trim()}`)),
    )
  })
}
