/** Puts a real Caddy with TLS in front of the Temporal of all tests: one port wants a client certificate, the other one an API key. */

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { inject } from 'vitest'
import { binary } from '../../../stack/binaries.mjs'
import { Ports } from '../../../stack/ports.ts'
import { eventually } from '../../support/fixtures/tenants.ts'
import { type Authority, type Certified, makeAuthority } from '../../support/servers/authority.ts'

/** A host that nobody asks for. */
export const OTHER_HOST = 'elsewhere.example'

export interface TemporalGateway {
  readonly authority: Authority
  /** host:port of the listener that wants a certificate of the authority, and of the one that wants a key. */
  readonly mtls: string
  readonly keyed: string
  /** That of the listener without TLS, which lets everybody in. */
  readonly plain: string
  /** From now on these keys alone are accepted. */
  accept(...keys: string[]): Promise<void>
  /** Both listeners show this certificate from now on. */
  show(certified: Certified): Promise<void>
  /** A file with this text. */
  file(name: string, text: string): string
  close(): Promise<void>
}

/** @param address of Temporal */
export async function startTemporalGateway(
  key: string,
  address: string | undefined = inject('tenon').env['TEMPORAL_ADDRESS'],
): Promise<TemporalGateway> {
  const path = await binary('caddy')
  const authority = makeAuthority()
  const dir = mkdtempSync(join(tmpdir(), 'tenon-temporal-'))
  const file = (name: string, text: string) => {
    const at = join(dir, name)
    writeFileSync(at, text)
    return at
  }
  const ports = new Ports({ remembered: {}, any: true })
  const [admin, mtls, keyed, plain] = [
    await ports.take('admin', 0),
    await ports.take('mtls', 0),
    await ports.take('keyed', 0),
    await ports.take('plain', 0),
  ]
  const trusted = file('ca.pem', authority.certificate)
  const state = { keys: [key], shown: authority.issue() }
  const config = () => {
    const temporal = {
      handler: 'reverse_proxy',
      transport: { protocol: 'http', versions: ['h2c'] },
      flush_interval: -1,
      upstreams: [{ dial: address }],
    }
    const authorization = state.keys.map((one) => `Bearer ${one}`)
    const server = (port: number, policy: object, routes: object[]) => ({
      ...{ listen: [`127.0.0.1:${port}`], protocols: ['h1', 'h2'], routes },
      automatic_https: { disable: true },
      // Without it, a certificate of another host is not shown at all.
      tls_connection_policies: [{ fallback_sni: OTHER_HOST, ...policy }],
    })
    const client = { mode: 'require_and_verify', ca: { provider: 'file', pem_files: [trusted] } }
    return {
      admin: { listen: `127.0.0.1:${admin}` },
      apps: {
        tls: {
          certificates: { load_pem: [{ certificate: state.shown.certificate, key: state.shown.key }] },
        },
        http: {
          grace_period: '1s',
          servers: {
            plain: {
              ...{ listen: [`127.0.0.1:${plain}`], protocols: ['h1', 'h2c'] },
              ...{ automatic_https: { disable: true }, routes: [{ handle: [temporal] }] },
            },
            mtls: server(mtls, { client_authentication: client }, [{ handle: [temporal] }]),
            keyed: server(keyed, {}, [
              { match: [{ header: { authorization } }], handle: [temporal] },
              { handle: [{ handler: 'static_response', status_code: 401 }] },
            ]),
          },
        },
      },
    }
  }
  const child = spawn(path, ['run', '--config', file('caddy.json', JSON.stringify(config()))], {
    stdio: 'ignore',
    env: { HOME: dir, XDG_CONFIG_HOME: dir, XDG_DATA_HOME: dir },
  })
  const load = async () => {
    const reply = await fetch(`http://127.0.0.1:${admin}/load`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', origin: `http://127.0.0.1:${admin}` },
      body: JSON.stringify(config()),
    })
    if (!reply.ok) throw new Error(`Caddy: ${reply.status} ${await reply.text()}`)
  }
  await eventually(() =>
    fetch(`http://127.0.0.1:${admin}/config/`).then(
      () => true,
      () => undefined,
    ),
  )
  return {
    ...{ authority, file },
    ...{ mtls: `localhost:${mtls}`, keyed: `localhost:${keyed}`, plain: `localhost:${plain}` },
    accept: (...keys) => {
      state.keys = keys
      return load()
    },
    show: (certified) => {
      state.shown = certified
      return load()
    },
    close: async () => {
      const exited = once(child, 'exit')
      child.kill('SIGKILL')
      await exited
      rmSync(dir, { recursive: true, force: true })
    },
  }
}
