/** Servers with TLS, whose certificate can be replaced: PostgreSQL, Redis, and the object store behind a proxy. */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createServer } from 'node:tls'
import { inject } from 'vitest'
import type { ServerName } from '../../../src/infra/health-report.ts'
import { type Authority, type Certified, makeAuthority } from '../../support/servers/authority.ts'
import { startRedis } from '../../support/servers/redis-server.ts'
import { startPgBouncer } from './pgbouncer.ts'

export interface TlsServers {
  readonly authority: Authority
  /** Settings with which the platform trusts the authority in this file, or those that Node knows. */
  settings(of: readonly ServerName[], authorityFile: string | undefined): Record<string, string>
  /** All servers show this certificate from now on. */
  show(certified: Certified): Promise<void>
  /** A file with this text. */
  file(name: string, text: string): string
  close(): Promise<void>
}

export async function startTlsServers(): Promise<TlsServers> {
  const authority = makeAuthority()
  const dir = mkdtempSync(join(tmpdir(), 'tenon-tls-'))
  const file = (name: string, text: string) => {
    const path = join(dir, name)
    writeFileSync(path, text)
    return path
  }
  const own = authority.issue()
  const [certificate, key] = [file('own.pem', own.certificate), file('own.key', own.key)]
  const first = authority.issue()
  const [postgres, store] = await Promise.all([openPostgresTls(first), openStoreTls()])
  const redis = await startRedis({
    isTls: true,
    settings: [
      'maxmemory 100mb',
      'maxmemory-policy noeviction',
      'tls-ca-cert-file ca.pem',
      'tls-cert-file tls.pem',
      'tls-key-file tls.key',
    ],
    files: { 'ca.pem': authority.certificate, 'tls.pem': first.certificate, 'tls.key': first.key },
    client: { tls: { rejectUnauthorized: false, cert: own.certificate, key: own.key } },
  })
  const show = async (certified: Certified) => {
    await postgres.show(certified)
    store.show(certified)
    writeFileSync(join(redis.dir, 'tls.pem'), certified.certificate)
    writeFileSync(join(redis.dir, 'tls.key'), certified.key)
    await redis.client.config('SET', 'tls-cert-file', 'tls.pem', 'tls-key-file', 'tls.key')
  }
  store.show(first)
  const ofServer = (
    authorityFile: string | undefined,
  ): Partial<Record<ServerName, Record<string, string>>> => ({
    postgres: { DATABASE_APP_URL: postgres.url(authorityFile) },
    valkey: {
      ...{ REDIS_URL: `rediss://localhost:${redis.port}`, REDIS_CERT_FILE: certificate, REDIS_KEY_FILE: key },
      ...(authorityFile && { REDIS_CA_FILE: authorityFile }),
    },
    s3: { S3_ENDPOINT: store.endpoint, ...(authorityFile && { S3_CA_FILE: authorityFile }) },
  })
  return {
    ...{ authority, show, file },
    settings: (of, authorityFile) => Object.assign({}, ...of.map((name) => ofServer(authorityFile)[name])),
    close: async () => {
      await Promise.all([postgres.stop(), redis.stop()])
      store.close()
      rmSync(dir, { recursive: true, force: true })
    },
  }
}

/** The embedded PostgreSQL has no TLS, so that of PgBouncer is used, whose clients see no difference. */
async function openPostgresTls({ certificate, key }: Certified) {
  const plain = inject('tenon').env['DATABASE_APP_URL'] ?? ''
  const pooler = await startPgBouncer('session', [plain], {
    settings: [
      'client_tls_sslmode = require',
      'client_tls_cert_file = server.crt',
      'client_tls_key_file = server.key',
    ],
    files: { 'server.crt': certificate, 'server.key': key },
  })
  return {
    url: (authorityFile: string | undefined) => {
      const url = new URL(pooler.through(plain))
      url.hostname = 'localhost'
      url.searchParams.set('sslmode', 'verify-full')
      if (authorityFile !== undefined) url.searchParams.set('sslrootcert', authorityFile)
      return url.href
    },
    show: async (certified: Certified) => {
      writeFileSync(join(pooler.dir, 'server.crt'), certified.certificate)
      writeFileSync(join(pooler.dir, 'server.key'), certified.key)
      await pooler.restart()
    },
    stop: pooler.stop,
  }
}

/** Takes TLS off in front of the object store, as a proxy of an operator does. */
async function openStoreTls() {
  const upstream = new URL(inject('tenon').env['S3_ENDPOINT'] ?? '')
  const sockets = new Set<Socket>()
  const server = createServer((client) => {
    const store = connect(Number(upstream.port), upstream.hostname)
    for (const end of [client, store]) {
      sockets.add(end)
      end.on('error', () => {}).on('close', () => [client, store].map((one) => sockets.delete(one.destroy())))
    }
    client.pipe(store).pipe(client)
  })
  server.on('tlsClientError', () => {})
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  return {
    endpoint: `https://localhost:${(server.address() as AddressInfo).port}`,
    show: ({ certificate, key }: Certified) => server.setSecureContext({ cert: certificate, key }),
    close: () => {
      for (const socket of sockets) socket.destroy()
      server.close()
    },
  }
}
