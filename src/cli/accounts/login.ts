/** `tenon token|login`: prints an access token; `login` signs a person in with a browser. */

import type { Command } from 'commander'
import { need, operatorAccess, readSettings } from '../settings.ts'
import { addVerb } from '../verb.ts'
import { signIn } from './sign-in.ts'

async function token(): Promise<number> {
  const access = await operatorAccess(await readSettings())
  process.stdout.write(`${access.token}\n`)
  return 0
}

/** Prints the address to sign in on stderr, then the access token alone on stdout. */
async function login(options: { client?: string }): Promise<number> {
  const settings = await readSettings()
  const clientId = options.client ?? need(settings, 'TENON_LOGIN_CLIENT_ID')
  process.stdout.write(`${await signIn(need(settings, 'TENON_URL'), clientId)}\n`)
  return 0
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
