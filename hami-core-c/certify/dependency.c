/* What the plugin depends on. */
__attribute__((visibility("default"))) long answers_41(void);
long answers_41(void) { return 41; }
