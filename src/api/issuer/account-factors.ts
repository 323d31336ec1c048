/** Second factor, passkeys and identities at providers on the page of a user's own account. */

import {
  CODE_ERRORS,
  codePage,
  recoveryCodesPage,
  totpSetupPage,
} from '../../features/identity/pages/factor-pages.ts'
import type { Page } from '../../features/identity/pages/pages.ts'
import { passkeySetupPage } from '../../features/identity/pages/passkey-pages.ts'
import { accountSignInPage } from '../../features/identity/pages/user-pages.ts'
import { isUserName } from '../../features/identity/users/user-service.ts'
import { isUser, type UserAccount } from '../../features/identity/users/users-store.ts'
import { confirmPassword, showAccount, type Visit } from './account-visit.ts'
import { type Form, requesterOf } from './forms.ts'

const atOf = ({ workspace }: Visit) => `account ${workspace.workspaceId}`

/** The page that asks for a code after the password; undefined if the user has no second factor. */
export async function askCode(visit: Visit, user: UserAccount): Promise<Page | undefined> {
  const ticket = await visit.issuer.secondFactors.challenge(user, atOf(visit))
  return ticket === undefined ? undefined : codePage(visit.workspace, { ticket, action: visit.request.url })
}

/** The signed-in user if the submitted code is right; otherwise the page with the error. */
export async function checkCode(visit: Visit, { ticket = '', code = '' }: Form): Promise<UserAccount | Page> {
  const { issuer, workspace, request, path: clientId } = visit
  const form = { ticket, code, at: atOf(visit), clientId }
  const checked = await issuer.factorService.checkCode(requesterOf(request), workspace, form)
  if (typeof checked !== 'string' && isUser(checked.person)) return checked.person
  if (typeof checked !== 'string') throw new TypeError('a person of a workspace must be a user')
  if (checked === 'expired' || checked === 'changed')
    return accountSignInPage(workspace, CODE_ERRORS[checked])
  return codePage(workspace, { ticket, action: request.url }, CODE_ERRORS[checked])
}

const NEED_PASSWORD = new Set([
  ...['totp_begin', 'totp_off', 'passkey_begin', 'passkey_delete'],
  ...['identity_disconnect', 'identity_connect'],
])

/** @returns undefined for an action that is about something else */
export async function actOnFactors(visit: Visit, user: UserAccount, form: Form): Promise<Page | undefined> {
  const { action } = form
  if (action === 'cancel' || action === 'show') return showAccount(visit, user)
  if (action === 'totp_on') return enableTotp(visit, user, form)
  if (action === 'passkey_add') return addPasskey(visit, user, form)
  if (!NEED_PASSWORD.has(action ?? '')) return undefined
  const confirmed = await confirmPassword(visit, user, form['current'])
  if ('text' in confirmed) return showAccount(visit, user, { refused: confirmed })
  if (action === 'totp_off') return disableTotp(visit, confirmed, form['code'] ?? '')
  if (action === 'passkey_begin') return beginPasskey(visit, confirmed)
  if (action === 'passkey_delete') return deletePasskey(visit, confirmed, form['passkey'] ?? '')
  if (action === 'identity_disconnect' || action === 'identity_connect')
    return setConnected(visit, confirmed, form['identity'] ?? '', action === 'identity_connect')
  const { issuer, workspace } = visit
  return totpSetupPage(workspace, issuer.secondFactors.begin(confirmed, workspace.brand.name))
}

/** The ticket shows that the password was verified when the setup began. */
async function enableTotp(visit: Visit, user: UserAccount, { ticket = '', code = '' }: Form): Promise<Page> {
  const { issuer, workspace, request } = visit
  const setup = issuer.secondFactors.continueSetup(user, workspace.brand.name, ticket)
  if (setup === undefined)
    return showAccount(visit, user, {
      refused: { status: 400, text: 'The request took too long. Start again.' },
    })
  const codes = await issuer.factorService.enableTotp(requesterOf(request), workspace, user, setup, code)
  return codes === undefined
    ? totpSetupPage(workspace, setup, CODE_ERRORS.wrong_code)
    : recoveryCodesPage(workspace, codes)
}

async function disableTotp(visit: Visit, user: UserAccount, code: string): Promise<Page> {
  const { issuer, workspace, request } = visit
  const outcome = await issuer.factorService.disableTotp(requesterOf(request), workspace, user, code)
  return outcome === 'done'
    ? showAccount(visit, user, { done: 'Sign-in no longer needs a code.' })
    : showAccount(visit, user, { refused: CODE_ERRORS[outcome] })
}

async function beginPasskey(visit: Visit, user: UserAccount): Promise<Page> {
  const { issuer, workspace, request } = visit
  const { isAvailable } = issuer.passkeys
  if (!isAvailable) return showAccount(visit, user, { refused: NO_PASSKEYS })
  const options = await issuer.passkeys.registrationOptions(user, workspace.brand.name)
  return passkeySetupPage(workspace, options, request.url)
}

const NO_PASSKEYS = { status: 400, text: 'Passkeys are not available here.' }

/** The challenge that the passkey answers shows that the password was verified. */
async function addPasskey(visit: Visit, user: UserAccount, form: Form): Promise<Page> {
  const { issuer, workspace, request } = visit
  const { credential = '' } = form
  const name = (form['name'] ?? '').trim() || 'Passkey'
  const passkey = { name, credential }
  const isAdded =
    isUserName(name) &&
    (await issuer.factorService.addPasskey(requesterOf(request), workspace, user, passkey))
  return showAccount(
    visit,
    user,
    isAdded ? { done: 'You can now sign in with the passkey.' } : { refused: NOT_ADDED },
  )
}

const NOT_ADDED = {
  status: 400,
  text: 'The passkey was not added. Try again. An account can have at most 10 passkeys.',
}

async function deletePasskey(visit: Visit, user: UserAccount, id: string): Promise<Page> {
  const { issuer, workspace, request } = visit
  const isDeleted = await issuer.factorService.deletePasskey(requesterOf(request), workspace, user, id)
  const refused = { status: 404, text: 'You have no such passkey.' }
  return showAccount(visit, user, isDeleted ? { done: 'The passkey is deleted.' } : { refused })
}

async function setConnected(
  visit: Visit,
  user: UserAccount,
  id: string,
  isConnected: boolean,
): Promise<Page> {
  const { issuer, workspace, request } = visit
  const { providerService } = issuer
  const isSet = await providerService.setConnected(requesterOf(request), workspace, user, { id, isConnected })
  if (!isSet)
    return showAccount(visit, user, { refused: { status: 404, text: 'Your account has no such provider.' } })
  return showAccount(visit, user, {
    done: isConnected ? 'The provider can sign you in again.' : 'The provider can no longer sign you in.',
  })
}
