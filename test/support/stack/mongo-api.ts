/** Starts an API process whose undeclared collections, and those of the store `document`, are in a document store. */

import { spawn } from 'node:child_process'
import { inject } from 'vitest'
import { currentBuild } from '../../../src/cli/stack/build.ts'
import { Ports } from '../../../stack/ports.ts'
import { eventually } from '../fixtures/tenants.ts'
import { startMongo } from './ferretdb.ts'
import type { Running } from './start.ts'

interface MongoApi {
  readonly running: Running
  /** Of the document store. */
  readonly mongoUrl: string
  readonly stop: () => Promise<void>
}

/** The process shares all other servers with the common platform. */
export async function startMongoApi(): Promise<MongoApi> {
  const first = inject('tenon')
  const mongo = await startMongo()
  const port = await new Ports({ remembered: {}, any: true }).take('api', 0)
  const env = { ...process.env, ...first.env, TENON_PORT: String(port), MONGODB_URL: mongo.url }
  const second = spawn(process.execPath, [(await currentBuild()).api], { env, stdio: 'ignore' })
  const running = { ...first, url: `http://127.0.0.1:${port}` }
  const stop = async () => {
    second.kill('SIGTERM')
    await mongo.stop()
  }
  const ready = async () => (await fetch(`${running.url}/readyz`).catch(() => undefined))?.status
  await eventually(async () => ((await ready()) === 200 ? true : undefined))
  return { running, mongoUrl: mongo.url, stop }
}
