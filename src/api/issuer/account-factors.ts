/** Second factor, passkeys and identities at providers on the page of the own account. */

import { METHODS } from '../../access/authentication/claims.ts'
import type { Account } from '../../features/identity/accounts/accounts-store.ts'
import type { SignInPlace } from '../../features/identity/factors/factor-owner.ts'
import type { Enrolment } from '../../features/identity/factors/second-factors.ts'
import {
  CODE_ERRORS,
  recoveryCodesPage,
  totpSections,
  totpSetupPage,
} from '../../features/identity/pages/factor-pages.ts'
import { identitySections } from '../../features/identity/pages/identity-pages.ts'
import type { Page } from '../../features/identity/pages/pages.ts'
import { passkeySections, passkeySetupPage } from '../../features/identity/pages/passkey-pages.ts'
import type { Message } from '../../features/identity/pages/user-pages.ts'
import { isUserName } from '../../features/identity/users/user-service.ts'
import { isUser, type UserAccount, type UserWorkspace } from '../../features/identity/users/users-store.ts'
import { brandNameOf, confirmPassword, hadSeveralFactors, type Visit } from './account-visit.ts'
import { type Form, requesterOf } from './forms.ts'
import type { SignedInAgain } from './signed-in-page.ts'

/** What an action leads to: another page, after which the browser may be signed in again, or a message on the page of the account. */
export type FactorOutcome = { readonly page: Page; readonly again?: SignedInAgain } | Message

/** Sections of the page. */
export async function factorSections(
  { issuer, workspace }: Visit,
  person: Account,
): Promise<readonly string[]> {
  const { identitiesStore, passkeys, secondFactors } = issuer
  return [
    ...totpSections(await secondFactors.read(person)),
    ...(passkeys.isAvailable ? passkeySections(await passkeys.list(person)) : []),
    ...(workspace !== undefined && isUser(person)
      ? identitySections(await identitiesStore.list(person), workspace.providers)
      : []),
  ]
}

type Action = (visit: Visit, person: Account, form: Form) => Promise<FactorOutcome> | FactorOutcome

/** Actions that begin on the page of the account: each asks for the password again, and for a session with a second factor, if there is one. */
const WITH_PASSWORD: Readonly<Record<string, Action>> = {
  totp_begin: beginTotp,
  totp_off: disableTotp,
  recovery_renew: renewRecoveryCodes,
  passkey_begin: beginPasskey,
  passkey_delete: deletePasskey,
  identity_connect: setConnected,
  identity_disconnect: setConnected,
}

/** Actions that end what another has begun: their ticket or challenge shows that the password was verified. */
const CONTINUING: Readonly<Record<string, Action>> = {
  cancel: () => ({}),
  show: () => ({}),
  totp_on: enableTotp,
  passkey_add: addPasskey,
}

/** @returns undefined for an action that is about something else */
export async function actOnFactors(
  visit: Visit,
  person: Account,
  form: Form,
): Promise<FactorOutcome | undefined> {
  const { action = '', current } = form
  if (Object.hasOwn(CONTINUING, action)) return CONTINUING[action]?.(visit, person, form)
  if (!Object.hasOwn(WITH_PASSWORD, action)) return undefined
  const confirmed = await confirmPassword(visit, person, current)
  if ('text' in confirmed) return { refused: confirmed }
  if (await needsFactor(visit, confirmed, action)) return { refused: SIGN_IN_WITH_FACTOR }
  return WITH_PASSWORD[action]?.(visit, confirmed, form)
}

/** True if the person has a second factor, and has opened the session without it: then it changes no factors. `totp_off` has a code of its own. */
const needsFactor = async (visit: Visit, person: Account, action: string): Promise<boolean> =>
  action !== 'totp_off' &&
  !hadSeveralFactors(visit) &&
  (await visit.issuer.secondFactors.read(person)) !== undefined

const SIGN_IN_WITH_FACTOR = {
  status: 401,
  text: 'Your account has a second factor, and you have signed in without it. Sign out, sign in with it, and try again.',
}

function beginTotp(visit: Visit, person: Account): FactorOutcome {
  const { issuer, place } = visit
  return { page: totpSetupPage(place, issuer.secondFactors.begin(person, brandNameOf(visit))) }
}

async function enableTotp(
  visit: Visit,
  person: Account,
  { ticket = '', code = '' }: Form,
): Promise<FactorOutcome> {
  const { issuer, place, request } = visit
  const setup = issuer.secondFactors.continueSetup(person, brandNameOf(visit), ticket)
  if (setup === undefined)
    return { refused: { status: 400, text: 'The request took too long. Start again.' } }
  const enrolment = await issuer.factorService.enableTotp(requesterOf(request), place, person, setup, code)
  if (enrolment === undefined) return { page: totpSetupPage(place, setup, CODE_ERRORS.wrong_code) }
  return afterEnrolment(place, enrolment, METHODS.code)
}

/** The first factor has ended all sessions, also that of this browser, which has just proved the factor. */
const afterEnrolment = (
  place: SignInPlace,
  { codes, person }: Enrolment,
  methods: readonly string[],
): FactorOutcome => ({ page: recoveryCodesPage(place, codes), again: { person, methods } })

async function disableTotp(
  { issuer, place, request }: Visit,
  person: Account,
  { code = '' }: Form,
): Promise<FactorOutcome> {
  const outcome = await issuer.factorService.disableTotp(requesterOf(request), place, person, code)
  return outcome === 'done'
    ? { done: 'Sign-in no longer needs a code of an app.' }
    : { refused: CODE_ERRORS[outcome] }
}

async function renewRecoveryCodes(
  { issuer, place, request }: Visit,
  person: Account,
): Promise<FactorOutcome> {
  const codes = await issuer.factorService.renewRecoveryCodes(requesterOf(request), place, person)
  if (codes === undefined) return { refused: { status: 400, text: 'You have no second factor.' } }
  return { page: recoveryCodesPage(place, codes) }
}

async function beginPasskey(visit: Visit, person: Account): Promise<FactorOutcome> {
  const { issuer, place, request } = visit
  if (!issuer.passkeys.isAvailable)
    return { refused: { status: 400, text: 'Passkeys are not available here.' } }
  const options = await issuer.passkeys.registrationOptions(person, brandNameOf(visit))
  return { page: passkeySetupPage(place, options, request.url) }
}

async function addPasskey(
  { issuer, place, request }: Visit,
  person: Account,
  form: Form,
): Promise<FactorOutcome> {
  const { credential = '' } = form
  const name = (form['name'] ?? '').trim() || 'Passkey'
  const added = isUserName(name)
    ? await issuer.factorService.addPasskey(requesterOf(request), place, person, { name, credential })
    : undefined
  if (added === undefined) return { refused: NOT_ADDED }
  return added.enrolment === undefined
    ? { done: 'You can now sign in with the passkey.' }
    : afterEnrolment(place, added.enrolment, METHODS.passkey)
}

const NOT_ADDED = {
  status: 400,
  text: 'The passkey was not added. Try again. An account can have at most 10 passkeys.',
}

async function deletePasskey(
  { issuer, place, request }: Visit,
  person: Account,
  { passkey = '' }: Form,
): Promise<FactorOutcome> {
  const isDeleted = await issuer.factorService.deletePasskey(requesterOf(request), place, person, passkey)
  return isDeleted
    ? { done: 'The passkey is deleted.' }
    : { refused: { status: 404, text: 'You have no such passkey.' } }
}

/** Connects or disconnects an identity at a provider, which only users have. */
async function setConnected(
  { issuer, workspace, request }: Visit,
  person: Account,
  { action, identity: id = '' }: Form,
): Promise<FactorOutcome> {
  const isConnected = action === 'identity_connect'
  const set = (of: UserWorkspace, user: UserAccount) =>
    issuer.providerService.setConnected(requesterOf(request), of, user, { id, isConnected })
  const isSet = workspace !== undefined && isUser(person) && (await set(workspace, person))
  if (!isSet) return { refused: { status: 404, text: 'Your account has no such provider.' } }
  return {
    done: isConnected ? 'The provider can sign you in again.' : 'The provider can no longer sign you in.',
  }
}
