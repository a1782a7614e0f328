// Lint rules of the page's TypeScript; tsc's strict mode (clients/web/tsconfig.json) has the types.
import eslint from 'eslint/config';
import tseslint from 'typescript-eslint';

export default eslint.defineConfig(tseslint.configs.strict, {
  files: ['page/src/**/*.ts', 'page/src/**/*.tsx'],
  rules: {
    eqeqeq: 'error',
    'no-console': 'error',
    // indices are checked by noUncheckedIndexedAccess; the sign says that the loop bounds them
    '@typescript-eslint/no-non-null-assertion': 'off',
    // an effect gives back nothing or what undoes it
    '@typescript-eslint/no-invalid-void-type': 'off',
  },
});
