/**
 * Starts a server of the MongoDB wire protocol: the one that MONGODB_URL names, or FerretDB, built once per
 * user.
 */

import { execFile, spawn, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdtemp, readFile, rename, rm } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { cacheDir } from '../../../stack/binaries.mjs'
import { withLock } from '../../../stack/lock.mjs'
import { Ports } from '../../../stack/ports.ts'
import { eventually } from '../fixtures/tenants.ts'

const SOURCE = fileURLToPath(new URL('ferretdb/', import.meta.url))

export interface MongoServer {
  readonly url: string
  /** Stops the server if this module started it. */
  stop(): Promise<void>
  /** True if this module started it. */
  readonly ours: boolean
}

/**
 * Reason why none is available, or undefined. The first call of a user builds it, which takes a minute or
 * two.
 */
export async function mongoUnavailableReason(): Promise<string | undefined> {
  if (process.env['MONGODB_URL']) return undefined
  const [, minor = 0] =
    /go1\.(\d+)/.exec(spawnSync('go', ['version'], { encoding: 'utf8' }).stdout ?? '') ?? []
  if (Number(minor) < 24) return 'MONGODB_URL is not set, and there is no Go 1.24 to build FerretDB with'
  return built().then(
    () => undefined,
    (error: unknown) => `FerretDB cannot be built: ${String(error).slice(0, 300)}`,
  )
}

/** Starts one with an empty store. */
export async function startMongo(): Promise<MongoServer> {
  const configured = process.env['MONGODB_URL']
  if (configured) return { url: configured, ours: false, stop: async () => {} }
  const program = await built()
  const dir = await mkdtemp(join(tmpdir(), 'tenon-ferretdb-'))
  const port = await new Ports({ remembered: {}, any: true }).take('mongodb', 0)
  const child = spawn(program, [`127.0.0.1:${port}`, dir], { stdio: 'ignore' })
  const exited = new Promise((done) => child.once('exit', done))
  await eventually(() => reachable(port))
  return {
    url: `mongodb://127.0.0.1:${port}/?directConnection=true`,
    ours: true,
    stop: async () => {
      child.kill('SIGKILL')
      await exited
      await rm(dir, { recursive: true, force: true })
    },
  }
}

/** The program of exactly this source, in the cache of the user. */
async function built(): Promise<string> {
  const parts = await Promise.all(['main.go', 'go.mod', 'go.sum'].map((name) => readFile(join(SOURCE, name))))
  const digest = createHash('sha256').update(Buffer.concat(parts)).digest('hex').slice(0, 12)
  const program = join(cacheDir(), `ferretdb-${digest}`)
  await withLock(`${program}.lock`, async () => {
    if (existsSync(program)) return
    const draft = `${program}.draft`
    await promisify(execFile)('go', ['build', '-o', draft, '.'], { cwd: SOURCE })
    await rename(draft, program)
  })
  return program
}

function reachable(port: number): Promise<true | undefined> {
  return new Promise((done) => {
    const socket = connect(port, '127.0.0.1')
    const end = (answer: true | undefined) => {
      socket.destroy()
      done(answer)
    }
    socket.once('connect', () => end(true)).once('error', () => end(undefined))
  })
}
