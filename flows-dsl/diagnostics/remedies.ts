/** Lists what authors write who know another language, and what to write instead. */

const ASL =
  'This is Amazon States Language. Write a flow with `document` and `do` (Open Workflow Specification 1.0).'
const OWS_08 = 'This is Serverless Workflow 0.8. Write a flow with `document` and `do` (version 1.0).'

/** Keys at the root that identify a definition of another language, which gets no other diagnostic. */
export const OTHER_LANGUAGES: Readonly<Record<string, string>> = {
  StartAt: ASL,
  States: ASL,
  specVersion: OWS_08,
  states: OWS_08,
}

/** By the key, or by the key within its place. */
export const KEYS: Readonly<Record<string, string>> = {
  retry: 'Put `retry` in the `catch` of a `try`: try: [ … ], catch: { retry: { … } }.',
  forEach: 'Write `for: { each: item, in: … }` with the tasks in `do`.',
  foreach: 'Write `for: { each: item, in: … }` with the tasks in `do`.',
  while: 'Write `while` beside a `for`: for: { in: … }, while: …, do: [ … ].',
  'approve.timeout': 'Write `deadline`, and the outcome in `onDeadline`.',
  'listen.one': 'Write `listen: { to: { one: … } }`.',
  'listen.any': 'Write `listen: { to: { any: [ … ] } }`.',
  'listen.all': 'Write `listen: { to: { all: [ … ] } }`.',
  'exponential.maxDelay': 'End the retries with `limit: { duration: PT1H }`. A delay has no upper bound.',
  'retry.maxAttempts':
    'Write `limit: { attempt: { count: 3 } }`, the number of retries after the first attempt.',
  'with.url': 'Write `endpoint`.',
}

export const VARIABLES: Readonly<Record<string, string>> = {
  env: 'Put settings into the input or a collection, and passwords into `$secrets`. A flow has no environment variables.',
  data: 'Write `.` for the data of the task, or `$context` for exported data.',
  now: 'Write `now` for the seconds since 1970, or `now | todate` for a text.',
}

const SECONDS = 'Add seconds: `.at | fromdate + 86400 | todate` is a day later.'
const ZONES = 'Set `timezone` on a schedule, or convert times in a function. Expressions support only UTC.'

/** Functions of other languages or of newer ones, most of them for dates. */
export const FUNCTIONS: Readonly<Record<string, string>> = {
  date_add: SECONDS,
  date_sub: SECONDS,
  add_days: SECONDS,
  addDays: SECONDS,
  date_diff: 'Subtract seconds: `(.end | fromdate) - (.start | fromdate)`.',
  in_zone: ZONES,
  tz: ZONES,
  timezone: ZONES,
  new: 'Write `now` for the seconds since 1970, or `now | todate` for a text.',
  parse_date: 'Write `fromdate` for RFC 3339, or `strptime("%d.%m.%Y") | mktime` for another format.',
  format_date: 'Write `strftime("%Y-%m-%d")` after a number of seconds.',
  uuid: 'Write `$workflow.id`, which is unique and stays the same in a retry. Documents get their own ids.',
}

/** Names that other crons have for five fields. */
export const CRONS: Readonly<Record<string, string>> = {
  '@yearly': '0 0 1 1 *',
  '@annually': '0 0 1 1 *',
  '@monthly': '0 0 1 * *',
  '@weekly': '0 0 * * 0',
  '@daily': '0 0 * * *',
  '@midnight': '0 0 * * *',
  '@hourly': '0 * * * *',
}
