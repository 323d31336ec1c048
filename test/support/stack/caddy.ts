/** Runs Caddy with the configuration of examples/gateway. */

import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { inject } from 'vitest'
import { binary } from '../../../stack/binaries.mjs'
import { Ports } from '../../../stack/ports.ts'
import { eventually, type TestWorkspace } from '../fixtures/tenants.ts'

const CADDYFILE = fileURLToPath(new URL('../../../examples/gateway/Caddyfile', import.meta.url))

export interface Gateway {
  /** Base URLs of its two listeners. */
  readonly publicUrl: string
  readonly shopUrl: string
  stop(): Promise<void>
}

/**
 * @param upstream URL of the server behind it; the running platform by default @throws Error with the reason
 * if Caddy is not available or does not start
 */
export async function startGateway(shop: TestWorkspace, upstream = inject('tenon').url): Promise<Gateway> {
  const path = await binary('caddy')
  const { env } = inject('tenon')
  const ports = new Ports({ remembered: {}, any: true })
  const [publicPort, shopPort] = [await ports.take('public', 0), await ports.take('shop', 0)]
  const child = spawn(path, ['run', '--config', CADDYFILE, '--adapter', 'caddyfile'], {
    stdio: ['ignore', 'ignore', 'pipe'],
    env: {
      HOME: process.env['HOME'],
      PUBLIC_PORT: String(publicPort),
      SHOP_PORT: String(shopPort),
      TENON_UPSTREAM: new URL(upstream).host,
      GATEWAY_SECRET: env['GATEWAY_SECRET'],
      SHOP_TENANT: shop.tenantId,
      SHOP_WORKSPACE: shop.workspaceId,
    },
  })
  let said = ''
  child.stderr.on('data', (chunk) => {
    said += chunk
  })
  const exited = new Promise((done) => child.once('exit', done))
  const [publicUrl, shopUrl] = [`http://127.0.0.1:${publicPort}`, `http://127.0.0.1:${shopPort}`]
  const answers = (base: string) => async () => {
    if (child.exitCode !== null) throw new Error(`Caddy ended: ${said.slice(-500)}`)
    return fetch(`${base}/healthz`).then(
      ({ ok }) => (ok ? true : undefined),
      () => undefined,
    )
  }
  const stop = async () => {
    child.kill('SIGTERM')
    await exited
  }
  try {
    await Promise.all([publicUrl, shopUrl].map((base) => eventually(answers(base))))
  } catch (error) {
    await stop()
    throw error
  }
  return { publicUrl, shopUrl, stop }
}
