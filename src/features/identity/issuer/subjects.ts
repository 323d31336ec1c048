/** Finds the person behind the id in a session or token: an account, or a user of a workspace. */

import { idPattern } from '../../../core/ids.ts'
import { type Account, isWithin } from '../accounts/accounts-store.ts'
import type { OAuthClient } from '../clients/oauth-clients-store.ts'
import { isUser } from '../users/users-store.ts'
import type { IssuerServices } from './issuer-services.ts'

const USER_ID = new RegExp(idPattern('usr'))

type Stores = Pick<IssuerServices, 'accounts' | 'users'>

/** The person with this id, if there is one who may sign in somewhere. */
export function findPerson({ accounts, users }: Stores, id: string): Promise<Account | undefined> {
  return USER_ID.test(id) ? users.find(id) : accounts.find(id)
}

/** True if the client is for this kind of person; of users, for those of its workspace. Accounts may be of another tenant. */
export function isClientFor(client: OAuthClient, person: Account): boolean {
  return isUser(person)
    ? client.audience === 'users' && isWithin(person, client)
    : client.audience === 'accounts'
}

/** The person with this id, if the client is for them. */
export async function findSubject(
  stores: Stores,
  id: string,
  client: OAuthClient,
): Promise<Account | undefined> {
  const person = await findPerson(stores, id)
  return person !== undefined && isClientFor(client, person) ? person : undefined
}
