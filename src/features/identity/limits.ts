/** Limits of the issuer: tokens, sign-in, passwords, client registration, end users of workspaces. */

export const ISSUER_LIMITS = {
  // Tokens and sign-in
  /** Seconds of an access token of a person. Then its client refreshes it. */
  personTokenSeconds: 600,
  /** Seconds of a data token of an administrator. Then the administrator asks for another. */
  dataTokenSeconds: 600,
  /** Scopes of a data token. More are refused. */
  dataTokenScopesMax: 50,
  /** Seconds of an access token for an MCP server. Then its client refreshes it. */
  mcpTokenSeconds: 600,
  /** Seconds of an authorization code. Then the sign-in starts again. */
  authorizationCodeSeconds: 60,
  /** Seconds of a refresh token from the sign-in on, which a refresh does not extend. Then the person signs in again. */
  refreshSeconds: 1_209_600,
  /** Seconds for which a refresh token may be used again after its first use. Then a use revokes its grant. */
  refreshGraceSeconds: 60,
  /** Seconds of a session in the browser. Then the person signs in again. */
  signInSeconds: 28_800,
  /** Seconds for completing the pages of a sign-in. Then it starts again. */
  interactionSeconds: 900,
  /** Days of an invitation. Then an admin invites again. */
  invitationDays: 7,
  /** Grants on the page where people review their agents. Further ones are not shown. */
  grantsShownMax: 100,

  // Passwords
  /** Characters of a password. A shorter one is refused. */
  passwordCharsMin: 12,
  /** Characters of a password. A longer one is refused. */
  passwordCharsMax: 256,
  /** Hashes at a time, each 32 MiB and 250 ms of a thread. Further ones wait. */
  passwordHashesMax: 2,
  /** Hashes that run or wait for one network in one workspace or tenant. Further ones are refused with `rate_limited`. */
  passwordHashesPendingMax: 8,
  /** Hashes that wait in one process; the last one waits for about 16 s. Then the newest of the largest group is refused. */
  passwordHashesWaitingMax: 128,

  // Clients
  /** Redirect URIs of a client. More are refused. */
  redirectUrisMax: 10,
  /** Clients that have registered themselves. Beyond them the oldest unused one is replaced; if all are in use, no further one registers. */
  registrationsMax: 10_000,
  /** How long such a client is kept. */
  registrationKept: {
    /** Hours without a first use. Then the client may be deleted. */
    unusedHours: 24,
    /** Days since the last use. Then the client may be deleted. */
    idleDays: 90,
  },
  /** Documents that describe clients at their URL. */
  clientDocuments: {
    /** Bytes of a document. A larger one is refused. */
    bytesMax: 10_000,
    /** Milliseconds of reading a document. Then the copy in the database is used, or the client is refused. */
    timeoutMs: 3_000,
    /** Seconds for which a copy counts as current, whatever the headers say. Then it is read again. */
    freshSeconds: { min: 60, default: 3_600, max: 86_400 },
    /** Hours for which a copy is used after that if reading fails. Then the client is refused. */
    keptHours: 24,
    /** Milliseconds for which a failure is remembered. Then the document is read again. */
    failureCacheMs: 10_000,
    /** Failures that a process remembers. The least recently used is forgotten. */
    failuresCachedMax: 1_000,
    /** Documents that a process reads at a time. Further ones are refused for the moment. */
    readsMax: 20,
  },

  /** End users of workspaces. */
  users: {
    /** Users of a page that an export reads. Further ones are on the next page. */
    exportPageUsers: 100,
    /** Bytes of a user's claims as JSON. More are refused. */
    claimsBytesMax: 8_192,
    /** Levels of nesting of a user's claims. Deeper ones are refused. */
    claimsDepthMax: 5,
    /** Seconds for which the link of a mail is valid, by its purpose. Then the user asks for another mail. */
    linkSeconds: { sign_up: 86_400, email: 86_400, reset: 3_600, identity: 3_600 },
    /** Milliseconds between two mails of one kind to one address. Until then, none is sent. */
    mailIntervalMs: 60_000,
    /** Milliseconds of the window of the limits per client address and workspace. Then counting begins again. */
    mailsWindowMs: 3_600_000,
    /** Milliseconds for which a mail is tried again. Then it is given up. */
    mailRetryMs: 120_000,
    /** Seconds for which a page waits for a code or a passkey. Then the user signs in again. */
    factorSeconds: 300,
    /** Passkeys of a user. A further one is refused. */
    passkeysMax: 10,
    /** Identity providers of a workspace. More are refused with `validation_failed`. */
    providersMax: 5,
    /** Providers whose metadata a process caches. The least recently used is dropped. */
    providersCachedMax: 500,
    /** Seconds for a sign-in at a provider. Then it starts again. */
    providerSeconds: 900,
    /** Milliseconds of one request to a provider. Then the sign-in fails. */
    providerTimeoutMs: 5_000,
    /** Bytes of the logo of a workspace. A larger one is refused. */
    logoBytesMax: 65_536,
    /** Factors of contrast (WCAG 2.2, 1.4.3) between the workspace's colour and white. A lower one is refused. */
    contrastMin: 4.5,
  },
} as const
