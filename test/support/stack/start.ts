/** Starts real servers and a platform on them, as `npm start` does, for tests and benchmarks. */

import { randomBytes, randomInt } from 'node:crypto'
import { chmod } from 'node:fs/promises'
import { join } from 'node:path'
import { codecEndpoint, launchPlatform } from '../../../src/cli/stack/launch-platform.ts'
import { onFreePorts, Ports } from '../../../stack/ports.ts'
import { type Stack, type StackOptions, startStack } from '../../../stack/start.ts'
import { startDnsServer } from '../servers/dns-server.ts'

/** Description of the running platform: plain data, so that it can be passed to worker processes. */
export interface Running {
  readonly url: string
  readonly clientId: string
  readonly clientSecret: string
  readonly masterKey: string
  /** Superuser URL: only for tests of the database itself. */
  readonly databaseUrl: string
  /** Folder of the log files of all servers and processes. */
  readonly logs: string
  /** Environment of the platform's own processes. */
  readonly env: Readonly<Record<string, string>>
  /** Loopback ports that flows may call; unused until a test listens there. On the common platform each test file has its own. */
  readonly echoPorts: readonly number[]
}

export interface Started {
  readonly running: Running
  readonly stack: Stack
  stop(): Promise<void>
}

const ECHO_FROM = 11_000
const ECHO_TO = 14_900

/**
 * Many tests and benchmarks send from one address, faster than any client should. Tests of limits set their
 * own.
 */
export const UNLIMITED = {
  ...Object.fromEntries(
    [
      'SERVICE',
      'USER',
      'ANON',
      'ANON_ADDRESS',
      'ADMIN',
      'MCP',
      'WEBHOOK',
      'TENANT',
      'PUBLIC',
      'AUTH_FAILURES',
    ].map((who) => [`TENON_RATE_${who}`, '9000000/min']),
  ),
  TENON_SIGN_INS_PER_ADDRESS: '100000',
  TENON_REGISTRATIONS_PER_ADDRESS: '100000',
  TENON_USER_MAILS_PER_ADDRESS: '100000',
  TENON_USER_MAILS_PER_WORKSPACE: '100000',
  TENON_STREAMS_PER_TENANT: '10000',
  TENON_STREAMS_PER_ADDRESS: '10000',
}

/**
 * @param options `lasting`: servers that keep their data when they crash, as `npm start` has them;
 * `checkReplies`: each response is validated against its schema, unless false
 */
export async function startPlatform(
  dir: string,
  options: {
    lasting?: boolean
    masterKey?: string
    checkReplies?: boolean
    /** Settings of the servers, and of the platform. */
    servers?: Readonly<Record<string, string>>
    env?: Readonly<Record<string, string>>
    onEvent?: StackOptions['onEvent']
  } = {},
): Promise<Started> {
  // As root, PostgreSQL runs as another user, who needs access to the folder.
  await chmod(dir, 0o711)
  const dns = await startDnsServer()
  const ports = new Ports({ remembered: {}, any: true })
  let port = await ports.take('api', 0)
  const stack = await startStack({
    codecEndpoint: () => codecEndpoint(port, {}),
    dir,
    ephemeral: !options.lasting,
    anyPorts: true,
    env: { ...process.env, ...options.servers },
    onProgress: () => {},
    ...(options.onEvent !== undefined && { onEvent: options.onEvent }),
  })
  try {
    const masterKey = options.masterKey ?? randomBytes(32).toString('base64')
    // Below the ports that servers of other stacks get: nothing listens on these until a test does.
    const unused = new Ports({ remembered: {}, any: false })
    const echoPorts = await Promise.all(
      [1, 2, 3, 4, 5, 6, 7].map((n) => unused.take(`echo-${n}`, randomInt(ECHO_FROM, ECHO_TO))),
    )
    const settings = {
      stack,
      dir,
      masterKey,
      // As in the image. Tests start about 100 processes.
      sourceMaps: false,
      env: {
        GATEWAY_SECRET: randomBytes(32).toString('hex'),
        TENON_VALIDATE_RESPONSES: String(options.checkReplies ?? true),
        // Each process has a port of its own, which its log names.
        TENON_OPS_LISTEN: '127.0.0.1:0',
        ...UNLIMITED,
        // No test asks the DNS of the world: here, no name exists.
        TENON_DNS_SERVERS: dns.address,
        NODE_COMPILE_CACHE: process.env['TEST_COMPILE_CACHE'] ?? '',
        // Undeclared collections are in PostgreSQL, even if a test has another document store.
        MONGODB_URL: '',
        TENON_EGRESS_ALLOWLIST: echoPorts.map((port) => `127.0.0.1:${port}`).join(','),
        ...options.env,
      },
    }
    const launched = await onFreePorts(async () => {
      port = await ports.take('api', 0)
      return launchPlatform({ ...settings, port })
    })
    const { url, clientId, clientSecret } = launched
    const databaseUrl = stack.env['DATABASE_URL'] ?? ''
    const logs = join(dir, 'logs')
    const running = {
      url,
      clientId,
      clientSecret,
      masterKey,
      databaseUrl,
      logs,
      env: launched.env,
      echoPorts,
    }
    return {
      running,
      stack,
      stop: async () => {
        await stack.stop()
        await dns.close()
      },
    }
  } catch (error) {
    await stack.stop()
    throw error
  }
}
