/** Documents through PgBouncer in transaction mode, without TLS and with it, against PostgreSQL itself. */

import { startPgBouncer } from '../../test/conformance/external/pgbouncer.ts'
import { makeAuthority } from '../../test/support/servers/authority.ts'
import type { Started } from '../../test/support/stack/start.ts'
import { startApi } from '../installation/start-api.ts'
import { compareSides, documentsAt } from './documents.ts'

export async function pooler(started: Started): Promise<void> {
  const { running } = started
  const direct = running.env['DATABASE_APP_URL'] ?? ''
  const authority = makeAuthority()
  const { certificate, key } = authority.issue()
  const options = { databaseUrl: running.databaseUrl }
  const [plain, withTls] = await Promise.all([
    startPgBouncer('transaction', [direct], options),
    startPgBouncer('transaction', [direct], {
      ...options,
      settings: [
        'client_tls_sslmode = require',
        'client_tls_cert_file = tls.pem',
        'client_tls_key_file = tls.key',
      ],
      files: { 'tls.pem': certificate, 'tls.key': key, 'ca.pem': authority.certificate },
    }),
  ])
  const through = ({ keepsStatements, through: at }: typeof plain, more = '') => ({
    DATABASE_APP_URL: `${at(direct)}${more}`,
    DATABASE_SESSION_URL: direct,
    DATABASE_PREPARED_STATEMENTS: String(keepsStatements),
  })
  const tls = through(withTls)
  const secure = new URL(tls.DATABASE_APP_URL)
  // The certificate is for the name.
  secure.hostname = 'localhost'
  secure.search = `?sslmode=verify-full&sslrootcert=${withTls.dir}/ca.pem`
  try {
    const requestsAt = await documentsAt(running)
    const settings = {
      'PostgreSQL itself': { DATABASE_PREPARED_STATEMENTS: 'true' },
      'PostgreSQL itself, parsed each time': { DATABASE_PREPARED_STATEMENTS: 'false' },
      PgBouncer: through(plain),
      'PgBouncer, TLS': { ...tls, DATABASE_APP_URL: secure.href },
    }
    const sides: Record<string, ReturnType<typeof requestsAt>> = {}
    for (const [name, more] of Object.entries(settings))
      sides[name] = requestsAt((await startApi(started, name, more)).url)
    await compareSides(sides)
  } finally {
    await Promise.all([plain.stop(), withTls.stop()])
  }
}
