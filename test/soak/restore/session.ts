/** A person who has signed in at an installation beside the common one, and what is left of the session later. */

import { inject } from 'vitest'
import {
  authorization,
  Browser,
  cheapHash,
  REDIRECT,
  refresh,
  signIn,
} from '../../support/clients/browser.ts'
import { ok } from '../../support/clients/mcp.ts'
import { asSuperuser, call, type TestWorkspace, unique } from '../../support/fixtures/tenants.ts'
import type { Running } from '../../support/stack/start.ts'

export class Session {
  readonly #clientId: string
  #refreshToken: string

  readonly #accountId: string

  private constructor(accountId: string, clientId: string, refreshToken: string) {
    this.#accountId = accountId
    this.#clientId = clientId
    this.#refreshToken = refreshToken
  }

  /** Signs an admin of the tenant in. */
  static async start({ operator: as, tenantId }: TestWorkspace, at: Running): Promise<Session> {
    const post = (path: string, body: object) => ok(call('POST', path, { as, body, at }))
    const email = `${unique('ada')}@example.test`
    const password = `correct horse ${unique('p')}`
    const { id } = await post('/v1/accounts', { role: 'tenant_admin', tenant_id: tenantId, email })
    await asSuperuser(
      'update tenon.accounts set password = $2, invitation = null, invited_until = null where id = $1',
      [id, cheapHash(password)],
      at,
    )
    const client = await post('/v1/oauth-clients', { kind: 'public', name: 'App', redirect_uris: [REDIRECT] })
    const { slug: tenant } = await ok(call('GET', `/v1/tenants/${tenantId}`, { as, at }))
    const flow = authorization(client.client_id)
    const url = flow.url.replace(inject('tenon').url, at.url)
    const end = await signIn(new Browser(REDIRECT), { url }, { id, email, password, tenant })
    const response = await fetch(`${at.url}/auth/token`, {
      method: 'POST',
      body: new URLSearchParams({
        ...{ grant_type: 'authorization_code', client_id: client.client_id, redirect_uri: REDIRECT },
        ...{ code: end.searchParams.get('code') ?? '', code_verifier: flow.verifier },
      }),
    })
    const { refresh_token: token } = (await response.json()) as Record<string, string>
    return new Session(id, client.client_id, token ?? '')
  }

  /** Asks for the next tokens. @returns `invalid_grant` once the session has ended; undefined if it goes on */
  async next(at: Running): Promise<string | undefined> {
    const { body } = await refresh(this.#clientId, this.#refreshToken, at)
    this.#refreshToken = body['refresh_token'] ?? ''
    return body['error']
  }

  /** How many sessions the person has, by which pages let the browser in. */
  async count(at: Running): Promise<number> {
    const sql = 'select from tenon.sessions where account_id = $1'
    return (await asSuperuser(sql, [this.#accountId], at)).length
  }
}
