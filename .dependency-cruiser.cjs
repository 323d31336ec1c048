/** Who may import whom: docs/architecture.md, "Directions". Checked by `npm run check`. */
const only = (name, from, to, comment) => ({
  name,
  comment,
  severity: 'error',
  from: { path: from },
  to: { pathNot: to },
})

/** The files of a feature that other features may import (docs/decisions/0031-interfaces-of-features.md). */
const INTERFACES = [
  '[^/]+/limits',
  'analytics/(meters|time-series|usage)',
  // Features own their background tasks.
  'background/(background-task|tenant-task)',
  'archives/(archive-files|steps)',
  'collections/(aggregates/(aggregate|aggregates-api)|batch|bulk/(bulk-api|bulk-change-kind)|collections-api|document|documents-api|expiry/expired-documents|live-query|query/(order-and-selection|url)|scans|transfer|mongo/documents|rules/(change-events|text-rules)|schemas/(declare-collection|declared-tables|evaluate-schema|index-build|is-compatible|schema-language|schemas-api|schemas-transfer))',
  'events/(events|events-api|read-events)',
  'flows/(flow-summary|flows-transfer|secrets|executions/(commands|executions|follow)|approvals/(approval-shape|approvals|own-links))',
  'functions/(exported-constants|functions|functions-transfer|invoke|source-map)',
  'identity/(identity-services|sign-in-policy|accounts/accounts-api|clients/clients-api|keys/key|users/(auth-settings|users-api|users-transfer|workspace-auth))',
  'mcp-servers/(servers-transfer|remote/sources-transfer|remote/mcp/mcp-definitions|remote/openapi/read-tools|review/review-tools)',
  'objects/(links|object-rules|objects|objects-transfer|sweep-blobs|workspace-objects)',
  'people/(delete-user|removal-steps)',
  'quotas/quotas-api',
  'retention/retention-settings',
  // The kernel: each kind of durable work uses it.
  'runs/(caller|run-kind|slots|trace-ids|watcher)',
  // Flows and functions are targets of triggers.
  'runs/triggers/(events|limits|schedules|stream-consumer|trigger|trigger-starter|trigger-store|webhooks)',
  'tenants/(active|image-settings|imported-workspaces|jobs|provisioning|public-access|record-deletion|settings-transfer|tenants|unfinished|workspace-settings)',
  'threads/run-in-thread',
]

module.exports = {
  forbidden: [
    { name: 'no-cycles', severity: 'error', from: {}, to: { circular: true } },
    only(
      'language-imports-nothing-of-ours',
      '^flows-dsl/(?!compile/(compile|source-nodes)\\.ts)',
      '^flows-dsl/',
      'flows-dsl is pure; only the compiler reads YAML',
    ),
    only(
      'language-compiler',
      '^flows-dsl/compile/(compile|source-nodes)\\.ts',
      '^(flows-dsl/|node_modules/yaml/)',
    ),
    only(
      'core-is-pure',
      '^src/core/',
      '^(src/core/|(node:)?buffer$|node_modules/(lru-cache|typebox|typeid-js|uuid)/)',
    ),
    only(
      'infra-imports-core-alone',
      '^src/infra/',
      '^(src/(infra|core)/|node_modules/|package\\.json$|(node:)?[a-z_/]+$)',
      'drivers and mechanics without product rules',
    ),
    {
      name: 'access-below-features',
      severity: 'error',
      from: { path: '^src/access/' },
      to: { path: '^(src/(features|app|api|mcp|activities|workflows|cli)|flows-dsl|stack)/' },
    },
    {
      name: 'features-have-no-drivers',
      comment: 'scope first: no pool, client or connection leaves a feature that wraps one',
      severity: 'error',
      from: {
        path: '^src/features/',
        pathNot: '^src/features/(objects/blobs|events/outbox-relay|runs/watcher)\\.ts$',
      },
      to: {
        path: '^(src/(app|api|mcp|activities|workflows|cli)/|stack/|node_modules/(pg|ioredis|mongodb|fastify|@aws-sdk|@temporalio)/)',
      },
    },
    {
      name: 'features-through-their-interface',
      severity: 'error',
      from: { path: '^src/features/([^/]+)/' },
      to: {
        path: '^src/features/[^/]+/',
        pathNot: ['^src/features/$1/', `^src/features/(${INTERFACES.join('|')})\\.ts$`],
      },
    },
    {
      name: 'runs-know-no-kind',
      comment: 'the kernel learns of flows and functions from their RunKind and their TriggerTarget alone',
      severity: 'error',
      from: { path: '^src/features/runs/' },
      to: { path: '^src/features/(flows|functions)/' },
    },
    {
      name: 'internals-of-scopes-stay-in-access',
      comment: 'features get one service of a scope, by a row of access/privileges.ts',
      severity: 'error',
      from: { path: '^src/', pathNot: '^src/(access|app)/' },
      to: { path: '^src/access/internals\\.ts$' },
    },
    {
      name: 'access-alone-raises-rights',
      comment: 'all others name a privilege: a row of access/privileges.ts',
      severity: 'error',
      from: { path: '^src/', pathNot: '^src/access/(privileges|derived-scopes)\\.ts$' },
      to: { path: '^src/access/openers\\.ts$' },
    },
    {
      name: 'access-alone-opens-scopes',
      comment: 'the API asks which kind of scope it has',
      severity: 'error',
      from: {
        path: '^src/',
        pathNot: '^src/(access/(access|openers|derived-scopes)|api/(request-pipeline|audit))\\.ts$',
      },
      to: { path: '^src/access/scope\\.ts$', dependencyTypesNot: ['type-only'] },
    },
    {
      name: 'entry-points-do-not-call-each-other',
      severity: 'error',
      from: { path: '^src/(api|mcp|activities)/' },
      to: { path: '^src/(api|mcp|activities|cli)/', pathNot: ['^src/$1/', '^src/mcp/mount\\.ts$'] },
    },
    only(
      'workflows-are-sealed',
      '^src/workflows/',
      '^(src/workflows/|flows-dsl/(?!compile/(compile|definition|schedule|timezones))|src/core/(json|problem|problem-catalogue|execution|secret-handle|tenant|trace|work|work-input)\\.ts|src/activities/contract\\.ts|src/(?!app/).*/limits\\.ts|node_modules/(@temporalio/(workflow|common)|@noble/hashes)/)',
      'deterministic code: no platform, no features but their limits, no Node built-ins',
    ),
    only(
      'backup-knows-servers-and-no-product',
      '^src/backup/',
      '^(src/(backup|infra|core)/|src/features/objects/limits\\.ts|stack/|node_modules/|(node:)?[a-z_/]+$)',
      'it copies servers as they are, and reads tables by SQL',
    ),
    {
      name: 'backup-is-for-commands',
      severity: 'error',
      from: { path: '^(src|flows-dsl|stack)/', pathNot: '^src/(backup|cli)/' },
      to: { path: '^src/backup/' },
    },
    only(
      'site-knows-pages-alone',
      '^src/site/',
      '^(src/site/|node_modules/|(node:)?[a-z_/]+$)',
      'it is made of files of docs, and runs before the platform does',
    ),
    only('limits-are-constants', '^src/(?!app/).*/limits\\.ts$', '^$', 'so every part may import them'),
    {
      name: 'pg-only-in-infra-postgres',
      severity: 'error',
      from: { path: '^src/', pathNot: '^src/(infra/postgres|cli/stack|backup)/' },
      to: { path: '^node_modules/pg/' },
    },
    {
      name: 'cli-speaks-http',
      comment:
        'only src/cli/stack and src/cli/backup know the embedded servers and the inside; the other verbs are clients like any other',
      severity: 'error',
      from: { path: '^src/cli/', pathNot: '^src/cli/(stack/|backup/|main)' },
      to: { path: '^(stack/|src/(app|backup|infra|access|features|api|workflows|activities|mcp)/)' },
    },
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    exclude: { path: '(^|/)test/' },
    tsPreCompilationDeps: false,
    parser: 'swc',
    enhancedResolveOptions: { exportsFields: ['exports'], conditionNames: ['import', 'node', 'default'] },
  },
}
