/** `tenon token|login`: prints an access token; `login` signs a user in with a browser and prints the access token (RFC 8252: code with PKCE, loopback). */

import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Command } from 'commander'
import * as oidc from 'openid-client'
import { issuerAt, requestToken } from '../client.ts'
import { need, operatorAccess, readSettings } from '../settings.ts'
import { addVerb } from '../verb.ts'

async function token(): Promise<number> {
  const access = await operatorAccess(await readSettings())
  process.stdout.write(`${access.token}\n`)
  return 0
}

const PATH = '/callback'
const SIGN_IN_TIMEOUT_MS = 600_000

/** Prints the address to sign in on stderr, then the access token alone on stdout. */
async function login(options: { client?: string }): Promise<number> {
  const settings = await readSettings()
  const url = need(settings, 'TENON_URL')
  const server = createServer().listen(0, '127.0.0.1')
  try {
    await once(server, 'listening')
    const redirectUri = `http://127.0.0.1:${(server.address() as AddressInfo).port}${PATH}`
    const issuer = issuerAt(url, options.client ?? need(settings, 'TENON_LOGIN_CLIENT_ID'), oidc.None())
    const [pkceCodeVerifier, expectedState] = [oidc.randomPKCECodeVerifier(), oidc.randomState()]
    const address = oidc.buildAuthorizationUrl(issuer, {
      redirect_uri: redirectUri,
      state: expectedState,
      code_challenge: await oidc.calculatePKCECodeChallenge(pkceCodeVerifier),
      code_challenge_method: 'S256',
      // Also in a browser that is signed in: the token then counts as a recent proof.
      prompt: 'login',
    })
    const redirected = waitForCallback(server, redirectUri)
    process.stderr.write(`Sign in at\n  ${address}\n`)
    const callback = await redirected
    const checks = { pkceCodeVerifier, expectedState }
    const token = await requestToken(url, () => oidc.authorizationCodeGrant(issuer, callback, checks))
    process.stdout.write(`${token}\n`)
    return 0
  } finally {
    server.close()
    server.closeAllConnections()
  }
}

/** Waits for the redirect of the browser, and returns its URL. @throws Error after ten minutes */
function waitForCallback(server: Server, redirectUri: string): Promise<URL> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(
      () => reject(new Error('No sign-in was completed within 10 minutes. Run `tenon login` again.')),
      SIGN_IN_TIMEOUT_MS,
    )
    server.on('request', (request: IncomingMessage, response: ServerResponse) => {
      const url = new URL(request.url ?? '/', redirectUri)
      const isCallback = url.pathname === PATH
      response.writeHead(isCallback ? 200 : 404, { 'content-type': 'text/plain', connection: 'close' })
      response.end(isCallback ? 'Sign-in is complete. Close this page and go back to the terminal.\n' : '')
      if (!isCallback) return
      clearTimeout(timer)
      resolve(url)
    })
  })
}

export function loginVerbs(program: Command): void {
  addVerb(program, 'token', 'Print an access token of the operator. Prints nothing else on stdout.', token)
  addVerb(program, 'login', 'Sign in with a browser. Prints only the access token on stdout.', login, [
    [
      '--client <id>',
      'Public OAuth client with the redirect URI http://127.0.0.1/callback. Default: TENON_LOGIN_CLIENT_ID.',
    ],
  ])
}
