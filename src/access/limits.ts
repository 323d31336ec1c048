/** Limits of authentication, rate limiting, idempotency and the audit log. */

export const ACCESS_LIMITS = {
  // Rate limits and leases of streams
  /** Buckets of rate limits in the memory of a process. The least recently used is dropped, and so full again. */
  rateBucketsMax: 50_000,
  /** Milliseconds for which a data request waits for the shared rate-limit store. Then the process counts by itself. */
  rateStoreTimeoutMs: 75,
  /** Milliseconds for which an admin's request waits for that store. Then it is refused with `dependency_unavailable`. */
  rateStoreAdminTimeoutMs: 1_000,
  /** Milliseconds after a timeout of that store. Then one request asks it again. */
  rateStoreRetryMs: 1_000,
  /** Milliseconds of the lease of an open stream. Then it no longer counts, unless it was renewed. */
  streamLeaseMs: 15_000,
  /** Milliseconds between two renewals of a lease. Then it is renewed. */
  streamRenewMs: 4_000,
  /** Milliseconds between two checks that the caller of an open stream is still allowed it. If not, the stream ends. */
  streamCheckMs: 1_000,
  /** Seconds that `Prefer: wait` may ask for. More are refused with `validation_failed`. */
  preferWaitSecondsMax: 30,

  // Authentication
  /** Milliseconds by which the recorded time of a key's last use may be late. Then a use is recorded. */
  keyUseLagMs: 60_000,
  /** Seconds of an access token of a machine client. Then the client asks for another. */
  tokenSeconds: 3_600,
  /** Milliseconds between two reads of the signing keys because of an unknown one. Until then, its tokens are refused. */
  signingKeysReloadMs: 1_000,
  /** Characters of the URL of a document that describes a client. A longer one is no client id. */
  clientIdUrlCharsMax: 200,
  /** Elements of a list in a user's claims that rules on objects and topics compare with. Later ones count for nothing. */
  ruleClaimValuesMax: 100,
  /** Attempts to sign in that fail within `attemptsWindowMs`. */
  attemptsMax: {
    /** Attempts at one account from one address. Further ones are refused until the window has passed. */
    accountFromAddress: 10,
    /** Attempts at one account from all addresses; more, so that knowing a name does not lock its owner out. Then as before. */
    account: 100,
  },
  /** Milliseconds of the window in which attempts count. Then counting begins again. */
  attemptsWindowMs: 900_000,
  /** Counters of attempts in the memory of a process. The least recently used is dropped. */
  attemptsCountedMax: 20_000,
  /** Seconds since the sign-in for which it proves enough for what cannot be taken back, such as a deletion. Then the person signs in again. */
  recentProofSeconds: 600,
  /** Seconds for which the page of the own account stays open. Then the person signs in again. */
  accountPageSeconds: 600,
  /** Seconds for which the page where people review their agents stays open. Then they sign in again. */
  agentsPageSeconds: 900,
  /** Seconds for which the page of approvals stays open. Then the link of the mail opens it again. */
  approvalsPageSeconds: 3_600,
  /** Seconds for which a browser may read payloads in the Temporal UI. Then the admin signs in again. */
  payloadSessionSeconds: 3_600,
  /** Seconds since an external token was issued. An older one is refused with `token_expired` or `token_invalid`. */
  externalTokenSeconds: 86_400,
  /** Groups of an external token that are read. Further ones count for nothing. */
  externalGroupsMax: 200,
  /** The key sets of external issuers. */
  jwks: {
    /** Milliseconds of reading a key set. Then the copy in the cache is used, or the token is refused. */
    timeoutMs: 3_000,
    /** Milliseconds for which a copy counts as current. Then it is read again. */
    freshMs: 600_000,
    /** Milliseconds for which a copy is used if reading fails. Then tokens of the issuer are refused. */
    keptMs: 86_400_000,
    /** Milliseconds between two reads for unknown keys, while the copy can be used. Then one more is made. */
    cooldownMs: 30_000,
    /** Milliseconds between two reads, without such a copy. Then one more is made. */
    retryMs: 5_000,
  },
  /** Characters of the scopes that an MCP server offers one by one, since proxies bound headers. Beyond, it offers the broader scopes. */
  mcpScopesOfferedCharsMax: 500,
  /** Servers whose broader scopes a process caches. The least recently used is dropped. */
  mcpUmbrellasCachedMax: 500,

  // Idempotency keys
  /** Characters of an idempotency key. A longer one is refused with `header_invalid`. */
  idempotencyKeyCharsMax: 255,
  /** Hours for which a reply is kept. Then a request with the key counts as a new one. */
  idempotencyHours: 24,
  /** Seconds of the lease of a running request, which its process renews. After a crash, a retry waits for so long. */
  idempotencyLeaseSeconds: 5,
  /** Milliseconds between two renewals of that lease. Then it is renewed. */
  idempotencyRenewMs: 1_500,
  /** Milliseconds for which completing a claim is tried again after its connection was lost. Then the claim stays open. */
  idempotencyRetryMs: 300,
  /** Bytes of a reply that is stored; a document of the largest size fits. A larger one is not, so a retry gets `idempotency_reply_lost`. */
  idempotencyReplyBytesMax: 524_288,
  /** Replies of each of 256 partitions per workspace and role, 100,000 in all. The oldest are deleted. */
  idempotencyRepliesMax: 400,
  /** Bytes of the replies of such a partition, 256 MiB in all. The oldest are deleted. */
  idempotencyBytesMax: 1_048_576,

  // Audit log
  /** Entries that wait in a process, about 500 bytes each. From half of it on, operations that need an entry are refused. */
  auditEntriesPendingMax: 10_000,
  /** Milliseconds for which refusals are counted. Then the number of those without an entry is recorded. */
  auditSummaryMs: 60_000,
  /** Denials per minute, address and tenant with an entry of their own. Further ones are counted in `audit.summary`. */
  auditAlikePerMinuteMax: 20,
  /** Addresses that the throttle tracks. Beyond them, denials count by tenant and outcome alone. */
  auditAddressesMax: 1_000,
  /** Characters of a text in an entry. A longer one is cut. */
  auditTextCharsMax: 1_024,
  /** Levels of nesting of a state in an entry, more than documents and their lists have. A deeper one is recorded as null. */
  auditDepthMax: 100,
  /** Entries that one call verifies. The next call goes on after them. */
  auditVerifiedMax: 10_000,
  /** Entries of a hash chain that one statement reads to verify them. The next statement goes on after them. */
  auditReadMax: 1_000,
} as const
