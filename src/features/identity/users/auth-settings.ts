/** The setting `auth` of a workspace: whether people may sign up, where else they sign in, and the look of the pages. */

import Type, { type Static } from 'typebox'
import { component } from '../../../core/components/component.ts'
import { CORE_LIMITS } from '../../../core/limits.ts'
import { VISIBLE_PATTERN } from '../../../core/text/visible-text.ts'
import { ISSUER_LIMITS } from '../limits.ts'
import {
  Provider,
  ProvidersInput,
  SignUp,
  type StoredProvider,
  settingProblem,
} from './identity-provider-settings.ts'

/** The pattern of `<input type="email">` (HTML Standard): users of workspaces have addresses in ASCII. */
export const USER_EMAIL_PATTERN =
  "^[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]+@[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?(?:\\.[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*$"

const Branding = Type.Object(
  {
    name: Type.Optional(
      Type.String({ minLength: 1, maxLength: CORE_LIMITS.nameCharsMax, pattern: VISIBLE_PATTERN }),
    ),
    logo_url: Type.Optional(
      Type.String({
        maxLength: Math.ceil(ISSUER_LIMITS.users.logoBytesMax / 3) * 4 + 40,
        description:
          'URL of the logo: `https` without a query, or `data:image/png|jpeg|webp;base64,…` of at most 64 KiB. SVG is not allowed.',
      }),
    ),
    color: Type.Optional(
      Type.String({
        pattern: '^#[0-9a-fA-F]{6}$',
        description: 'Color of buttons and links; white text on it needs a contrast of at least 4.5:1.',
      }),
    ),
  },
  {
    additionalProperties: false,
    description:
      'Branding of the hosted pages; a new value replaces all of its members. Default: the name of the workspace.',
  },
)
type Branding = Static<typeof Branding>

/** As admins see it. */
export const AuthSettings = component(
  'AuthSettings',
  Type.Object({
    sign_up: SignUp,
    branding: Branding,
    providers: Type.Array(Provider, { description: 'Identity providers with which users may sign in.' }),
  }),
  { sign_up: 'open', branding: { name: 'Riverside Tennis Club', color: '#1b5e20' }, providers: [] },
)
export type AuthSettings = Static<typeof AuthSettings>

export const AuthInput = Type.Object(
  {
    sign_up: Type.Optional(SignUp),
    branding: Type.Optional(Branding),
    providers: Type.Optional(ProvidersInput),
  },
  { additionalProperties: false },
)

/** As the database has it. */
export interface StoredAuth extends Omit<AuthSettings, 'providers'> {
  readonly providers: readonly StoredProvider[]
}

export const AUTH_DEFAULTS: StoredAuth = { sign_up: 'off', branding: {}, providers: [] }

/** @throws Problem `validation_failed` for a logo or a colour that pages cannot show */
export function checkBranding({ logo_url: logo, color }: Branding): void {
  if (logo !== undefined && !isLogo(logo))
    throw settingProblem(
      '/auth/branding/logo_url',
      'is neither an https URL without query and fragment, nor data:image/png, jpeg or webp in base64 of at most 64 KiB',
    )
  const ratio = color === undefined ? ISSUER_LIMITS.users.contrastMin : contrastWithWhite(color)
  if (ratio < ISSUER_LIMITS.users.contrastMin)
    throw settingProblem(
      '/auth/branding/color',
      `has a contrast of ${Math.floor(ratio * 100) / 100}:1 with white; at least ${ISSUER_LIMITS.users.contrastMin}:1 is needed`,
    )
}

/** Pages name the URL in their policy, where `;`, `,` and quotes would end it, and a query cannot stand. */
const LOGO_URL = /^https:\/\/[\w.-]+(:\d+)?\/[\w./~%@+-]*$/

const LOGO_DATA =
  /^data:image\/(png|jpeg|webp);base64,((?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?)$/

/** The first bytes of a file of each type. */
const SIGNATURES: Readonly<Record<string, RegExp>> = {
  png: /^\x89PNG\r\n/,
  jpeg: /^\xff\xd8\xff/,
  webp: /^RIFF.{4}WEBP/s,
}

function isLogo(text: string): boolean {
  if (LOGO_URL.test(text)) return text.length <= 2_000 && URL.canParse(text) && new URL(text).href === text
  const [, type = '', content = ''] = LOGO_DATA.exec(text) ?? []
  const bytes = Buffer.from(content, 'base64')
  return (
    bytes.length <= ISSUER_LIMITS.users.logoBytesMax &&
    SIGNATURES[type]?.test(bytes.toString('latin1')) === true
  )
}

/** Contrast ratio of a colour with white text (WCAG 2.2, "relative luminance"). @param color `#rrggbb` */
function contrastWithWhite(color: string): number {
  const [red = 0, green = 0, blue = 0] = [1, 3, 5].map((at) => {
    const share = Number.parseInt(color.slice(at, at + 2), 16) / 255
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4
  })
  return 1.05 / (0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05)
}
