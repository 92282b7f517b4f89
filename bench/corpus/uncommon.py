# SPDX-License-Identifier: Apache-2.0
"""Further architectures of the corpus: less common ones, small, for the operators and forms that they bring."""
import torch

from architectures import (BART, BATCH, IMAGE, SMALL, SPEECH, TEXT_SIZES, TOKENS, VISION, Entry, Results, _cached_decoder, _decoder,
                           _encoder, _huggingface, _timm, _tokens, _torchvision)

ENTRIES = {}

# ---- Encoders of text.

for _name, _model, _config, _more in (
        ("roformer", "RoFormerModel", "RoFormerConfig", {}),
        ("convbert", "ConvBertModel", "ConvBertConfig", dict(embedding_size=64)),
        ("mobilebert", "MobileBertModel", "MobileBertConfig", dict(embedding_size=64, hidden_size=128, intra_bottleneck_size=64)),
        ("squeezebert", "SqueezeBertModel", "SqueezeBertConfig", dict(embedding_size=256)),
        ("ibert", "IBertModel", "IBertConfig", {}),
        ("xlnet", "XLNetModel", "XLNetConfig", dict(d_model=256, n_layer=2, n_head=4, d_inner=256)),
        ("xlm", "XLMModel", "XLMConfig", dict(emb_dim=128, n_layers=2, n_heads=4)),
        ("rembert", "RemBertModel", "RemBertConfig", dict(input_embedding_size=64)),
        ("deberta", "DebertaModel", "DebertaConfig", dict(relative_attention=True, pos_att_type=["c2p", "p2c"])),
        ("longformer", "LongformerModel", "LongformerConfig", dict(attention_window=16)),
        ("bigbird", "BigBirdModel", "BigBirdConfig", dict(attention_type="original_full")),
        ("esm", "EsmModel", "EsmConfig", dict(pad_token_id=1, mask_token_id=2, position_embedding_type="rotary")),
        ("canine", "CanineModel", "CanineConfig", dict(num_hash_buckets=64, downsampling_rate=4, local_transformer_stride=16)),
        ("splinter", "SplinterModel", "SplinterConfig", {}),
        ("xmod", "XmodModel", "XmodConfig", dict(default_language="en_XX")),
        ("layoutlm", "LayoutLMModel", "LayoutLMConfig", {})):
    ENTRIES["hf_" + _name] = lambda m=_model, c=_config, o=_more: _encoder(m, c, {**SMALL, **o})

# ---- Decoders.

_EXPERTS = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=128)
for _name, _model, _config, _more in (
        ("phi3", "Phi3ForCausalLM", "Phi3Config", dict(num_key_value_heads=2, pad_token_id=0)),
        ("gemma3", "Gemma3ForCausalLM", "Gemma3TextConfig", dict(num_key_value_heads=2, head_dim=64, sliding_window=16)),
        ("qwen2_moe", "Qwen2MoeForCausalLM", "Qwen2MoeConfig", dict(num_key_value_heads=2, shared_expert_intermediate_size=128, **_EXPERTS)),
        ("qwen3_moe", "Qwen3MoeForCausalLM", "Qwen3MoeConfig", dict(num_key_value_heads=2, head_dim=64, **_EXPERTS)),
        ("olmo", "OlmoForCausalLM", "OlmoConfig", {}), ("olmo2", "Olmo2ForCausalLM", "Olmo2Config", {}),
        ("stablelm", "StableLmForCausalLM", "StableLmConfig", dict(num_key_value_heads=4)), ("starcoder2", "Starcoder2ForCausalLM", "Starcoder2Config", dict(num_key_value_heads=2)),
        ("cohere", "CohereForCausalLM", "CohereConfig", dict(pad_token_id=0, bos_token_id=1, eos_token_id=2)),
        ("granite", "GraniteForCausalLM", "GraniteConfig", {}), ("nemotron", "NemotronForCausalLM", "NemotronConfig", dict(num_key_value_heads=4, head_dim=64)),
        ("gptj", "GPTJForCausalLM", "GPTJConfig", dict(n_embd=128, n_layer=2, n_head=4, rotary_dim=16)),
        ("codegen", "CodeGenForCausalLM", "CodeGenConfig", dict(n_embd=128, n_layer=2, n_head=4, rotary_dim=16)),
        ("gpt_bigcode", "GPTBigCodeForCausalLM", "GPTBigCodeConfig", dict(n_embd=128, n_layer=2, n_head=4)),
        ("gpt_neo", "GPTNeoForCausalLM", "GPTNeoConfig", dict(num_layers=2, num_heads=4, attention_types=[[["global", "local"], 1]], window_size=8)),
        ("persimmon", "PersimmonForCausalLM", "PersimmonConfig", {}), ("mpt", "MptForCausalLM", "MptConfig", dict(d_model=128, n_layers=2, n_heads=4)),
        ("jamba", "JambaForCausalLM", "JambaConfig", dict(num_key_value_heads=2, num_experts=2, attn_layer_period=2, attn_layer_offset=1, use_mamba_kernels=False)),
        ("recurrent_gemma", "RecurrentGemmaForCausalLM", "RecurrentGemmaConfig", dict(lru_width=256, attention_window_size=16, num_key_value_heads=1)),
        ("rwkv", "RwkvModel", "RwkvConfig", dict(attention_hidden_size=256)), ("mamba2", "Mamba2ForCausalLM", "Mamba2Config", dict(state_size=16, num_heads=8, head_dim=64, n_groups=1, chunk_size=16)),
        ("falcon_mamba", "FalconMambaForCausalLM", "FalconMambaConfig", dict(state_size=8)),
        ("xlstm", "xLSTMForCausalLM", "xLSTMConfig", dict(num_blocks=2, num_heads=4, chunk_size=16)),
        ("glm4", "Glm4ForCausalLM", "Glm4Config", dict(num_key_value_heads=2, head_dim=64, pad_token_id=0)),
        ("deepseek_v3", "DeepseekV3ForCausalLM", "DeepseekV3Config", dict(num_key_value_heads=4, n_routed_experts=4, n_group=2, topk_group=1, num_experts_per_tok=2, first_k_dense_replace=1, q_lora_rank=64, kv_lora_rank=32, moe_intermediate_size=64, qk_rope_head_dim=16, qk_nope_head_dim=32, v_head_dim=32)),
        ("gpt_oss", "GptOssForCausalLM", "GptOssConfig", dict(num_key_value_heads=2, head_dim=64, num_local_experts=4, num_experts_per_tok=2, sliding_window=16)),
        ("smollm3", "SmolLM3ForCausalLM", "SmolLM3Config", dict(num_key_value_heads=2, pad_token_id=0)),
        ("lfm2", "Lfm2ForCausalLM", "Lfm2Config", dict(num_key_value_heads=2, full_attn_idxs=[1])),
        ("xglm", "XGLMForCausalLM", "XGLMConfig", dict(d_model=128, num_layers=2, attention_heads=4, ffn_dim=256)),
        ("biogpt", "BioGptForCausalLM", "BioGptConfig", {}), ("ctrl", "CTRLLMHeadModel", "CTRLConfig", dict(n_embd=128, n_layer=2, n_head=4, dff=256)),
        ("helium", "HeliumForCausalLM", "HeliumConfig", dict(num_key_value_heads=2, head_dim=64)), ("granitemoe", "GraniteMoeForCausalLM", "GraniteMoeConfig", dict(num_local_experts=4))):
    ENTRIES["hf_" + _name] = lambda m=_model, c=_config, o=_more: _decoder(m, c, {**SMALL, "num_hidden_layers": 2, "use_cache": False, **o})
ENTRIES["cached_qwen3"] = lambda: _cached_decoder("Qwen3ForCausalLM", "Qwen3Config", dict(SMALL, num_hidden_layers=2, num_key_value_heads=2, head_dim=32), 2, 32)
ENTRIES["cached_phi3"] = lambda: _cached_decoder("Phi3ForCausalLM", "Phi3Config", dict(SMALL, num_hidden_layers=2, num_key_value_heads=2, pad_token_id=0), 2, 64)
ENTRIES["cached_opt"] = lambda: _cached_decoder("OPTForCausalLM", "OPTConfig", dict(hidden_size=128, num_hidden_layers=2, num_attention_heads=4, ffn_dim=256, vocab_size=1000, word_embed_proj_dim=128), 4, 32)

# ---- Encoders with decoders.

_PAIR_DIMS = {"input_ids": TOKENS, "decoder_input_ids": {0: "batch", 1: "target"}}
_PAIR_SIZES = ({"batch": 1, "sequence": 17, "target": 1}, {"batch": 3, "sequence": 40, "target": 9})
_T5 = dict(d_model=128, num_layers=2, num_heads=4, d_ff=256, d_kv=32, vocab_size=1000, decoder_start_token_id=0, use_cache=False)
for _name, _model, _config, _more in (
        ("pegasus", "PegasusForConditionalGeneration", "PegasusConfig", BART), ("m2m100", "M2M100ForConditionalGeneration", "M2M100Config", BART),
        ("blenderbot", "BlenderbotForConditionalGeneration", "BlenderbotConfig", BART), ("mvp", "MvpForConditionalGeneration", "MvpConfig", BART),
        ("plbart", "PLBartForConditionalGeneration", "PLBartConfig", BART), ("led", "LEDForConditionalGeneration", "LEDConfig", dict(BART, attention_window=8)),
        ("umt5", "UMT5ForConditionalGeneration", "UMT5Config", _T5), ("longt5", "LongT5ForConditionalGeneration", "LongT5Config", dict(_T5, local_radius=8, encoder_attention_type="local")),
        ("switch", "SwitchTransformersForConditionalGeneration", "SwitchTransformersConfig", dict(_T5, num_experts=2)),
        ("prophetnet", "ProphetNetForConditionalGeneration", "ProphetNetConfig", dict(hidden_size=128, num_encoder_layers=2, num_decoder_layers=2, num_encoder_attention_heads=4, num_decoder_attention_heads=4, encoder_ffn_dim=256, decoder_ffn_dim=256, vocab_size=1000, use_cache=False, ngram=2)),
        ("fsmt", "FSMTForConditionalGeneration", "FSMTConfig", dict(BART, langs=["en", "de"], src_vocab_size=1000, tgt_vocab_size=1000))):
    ENTRIES["hf_" + _name] = lambda m=_model, c=_config, o=_more: _huggingface(
        m, c, o, {"input_ids": _tokens(32), "decoder_input_ids": _tokens(7)}, _PAIR_DIMS, _PAIR_SIZES)


class CachedWhisper(torch.nn.Module):
    """One step of Whisper's decoder: keys and values of earlier tokens and of the sound are inputs."""

    def __init__(self, module, layers):
        super().__init__()
        self.module, self.layers = module, layers

    def forward(self, decoder_input_ids, *past):
        from transformers import DynamicCache, EncoderDecoderCache

        cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
        for layer in range(self.layers):
            own, sound = past[4 * layer:4 * layer + 2], past[4 * layer + 2:4 * layer + 4]
            cache.self_attention_cache.update(*own, layer)
            cache.cross_attention_cache.update(*sound, layer)
            cache.is_updated[layer] = True
        result = self.module.model.decoder(input_ids=decoder_input_ids, encoder_hidden_states=past[2].new_zeros(past[2].shape[0], past[2].shape[2], 128),
                                           past_key_values=cache, use_cache=True)
        present = [t for layer in result.past_key_values.self_attention_cache.layers for t in (layer.keys, layer.values)]
        return (self.module.proj_out(result.last_hidden_state), *present)


def _cached_whisper():
    import transformers

    config = transformers.WhisperConfig(**dict(BART, use_cache=True, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1, num_mel_bins=80, begin_suppress_tokens=None, suppress_tokens=None))
    inputs, dims = {"decoder_input_ids": _tokens(1)}, {"decoder_input_ids": BATCH}
    for layer in range(2):
        for kind, length in (("key", 6), ("value", 6), ("sound_key", 50), ("sound_value", 50)):
            inputs[f"past_{layer}_{kind}"] = torch.randn(2, 4, length, 32)
            dims[f"past_{layer}_{kind}"] = {0: "batch", 2: "sound" if "sound" in kind else "past"}
    return Entry(CachedWhisper(transformers.WhisperForConditionalGeneration(config), 2), inputs, dims,
                 ({"batch": 1, "past": 1, "sound": 40}, {"batch": 3, "past": 11, "sound": 50}))


ENTRIES["cached_whisper"] = _cached_whisper

# ---- Speech and sound.

_SOUND_SIZES = ({"batch": 1, "sequence": 12345}, {"batch": 3, "sequence": 8000})
for _name, _model, _config, _more in (
        ("unispeech_sat", "UniSpeechSatModel", "UniSpeechSatConfig", {}), ("sew", "SEWModel", "SEWConfig", {}),
        ("data2vec_audio", "Data2VecAudioModel", "Data2VecAudioConfig", dict(num_conv_pos_embeddings=2)),
        ("wav2vec2_conformer", "Wav2Vec2ConformerModel", "Wav2Vec2ConformerConfig", dict(position_embeddings_type="rotary"))):
    ENTRIES["hf_" + _name] = lambda m=_model, c=_config, o=_more: _huggingface(
        m, c, dict(SPEECH, **o), {"input_values": torch.randn(2, 16000)}, {"input_values": TOKENS}, _SOUND_SIZES)
_MEL = {0: "batch", 1: "frames"}
ENTRIES["hf_wav2vec2_bert"] = lambda: _huggingface("Wav2Vec2BertModel", "Wav2Vec2BertConfig", dict(SPEECH, feature_projection_input_dim=80), {"input_features": torch.randn(2, 60, 80)}, {"input_features": _MEL}, ({"batch": 1, "frames": 44},))
ENTRIES["hf_speech_to_text"] = lambda: _huggingface("Speech2TextForConditionalGeneration", "Speech2TextConfig", dict(BART, max_source_positions=200, input_feat_per_channel=80), {"input_features": torch.randn(2, 60, 80), "decoder_input_ids": _tokens(5)}, {"input_features": _MEL, "decoder_input_ids": {0: "batch", 1: "target"}}, ({"batch": 1, "frames": 44, "target": 2},))
ENTRIES["hf_hifigan"] = lambda: _huggingface("SpeechT5HifiGan", "SpeechT5HifiGanConfig", dict(upsample_initial_channel=64), {"spectrogram": torch.randn(2, 20, 80)}, {"spectrogram": _MEL}, ({"batch": 1, "frames": 33},))
ENTRIES["hf_speecht5_encoder"] = lambda: _huggingface("SpeechT5Model", "SpeechT5Config", dict(SPEECH, encoder_layers=2, decoder_layers=1, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=256, decoder_ffn_dim=256), {"hidden_states": torch.randn(2, 20, 128)}, {"hidden_states": _MEL}, ({"batch": 1, "frames": 33},), part=lambda m: m.encoder.wrapped_encoder)
ENTRIES["hf_moonshine"] = lambda: _huggingface("MoonshineForConditionalGeneration", "MoonshineConfig", dict(hidden_size=128, intermediate_size=256, encoder_num_hidden_layers=2, decoder_num_hidden_layers=2, encoder_num_attention_heads=4, decoder_num_attention_heads=4, vocab_size=1000, use_cache=False), {"input_values": torch.randn(2, 16000), "decoder_input_ids": _tokens(4)}, {"input_values": TOKENS, "decoder_input_ids": {0: "batch", 1: "target"}}, ({"batch": 1, "sequence": 12345, "target": 1},))
ENTRIES["hf_dac"] = lambda: _huggingface("DacModel", "DacConfig", dict(encoder_hidden_size=8, decoder_hidden_size=64, n_codebooks=3, codebook_size=64), {"hidden_state": torch.randn(2, 1, 4096)}, {"hidden_state": {0: "batch", 2: "length"}}, ({"batch": 1, "length": 5120},), part=lambda m: m.encoder)
ENTRIES["hf_clap"] = lambda: _huggingface("ClapTextModel", "ClapTextConfig", SMALL, {"input_ids": _tokens(16)}, {"input_ids": TOKENS}, TEXT_SIZES)
ENTRIES["hf_fastspeech2"] = lambda: _huggingface("FastSpeech2ConformerModel", "FastSpeech2ConformerConfig", dict(hidden_size=64, vocab_size=60, encoder_layers=1, decoder_layers=1, encoder_linear_units=128, decoder_linear_units=128), {"input_ids": _tokens(12, 1, 60)}, {"input_ids": {1: "sequence"}}, ({"sequence": 19},))
ENTRIES["hf_musicgen"] = lambda: _huggingface("MusicgenForCausalLM", "MusicgenDecoderConfig", dict(vocab_size=64, hidden_size=128, num_hidden_layers=2, num_attention_heads=4, ffn_dim=256, num_codebooks=4, use_cache=False), {"input_ids": _tokens(9, 8, 64)}, {"input_ids": {1: "sequence"}}, ({"sequence": 4},))

# ---- Images.

for _name, _model, _config, _more in (
        ("deit", "DeiTModel", "DeiTConfig", dict(VISION, image_size=64, patch_size=16)), ("beit", "BeitModel", "BeitConfig", dict(VISION, image_size=64, patch_size=16, use_relative_position_bias=True)),
        ("swinv2", "Swinv2Model", "Swinv2Config", dict(image_size=64, embed_dim=24, depths=[2, 2], num_heads=[2, 4], window_size=4)),
        ("levit", "LevitModel", "LevitConfig", dict(image_size=64, hidden_sizes=[32, 48, 64], num_attention_heads=[2, 3, 4], depths=[1, 1, 1], key_dim=[8, 8, 8])),
        ("mobilevit", "MobileViTModel", "MobileViTConfig", dict(hidden_sizes=[32, 48, 64], neck_hidden_sizes=[8, 16, 24, 32, 40, 48, 64], image_size=64)),
        ("pvt", "PvtModel", "PvtConfig", dict(image_size=64, hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 3, 4])),
        ("focalnet", "FocalNetModel", "FocalNetConfig", dict(image_size=64, embed_dim=24, depths=[1, 1, 1, 1])), ("hiera", "HieraModel", "HieraConfig", dict(image_size=[64, 64], embed_dim=24, depths=[1, 1, 2, 1], num_heads=[1, 2, 4, 8], patch_stride=[4, 4])),
        ("swiftformer", "SwiftFormerModel", "SwiftFormerConfig", dict(image_size=64, depths=[1, 1, 1, 1], embed_dims=[24, 32, 48, 64])), ("vit_msn", "ViTMSNModel", "ViTMSNConfig", dict(VISION, image_size=64)),
        ("vitdet", "VitDetModel", "VitDetConfig", dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, image_size=64, use_relative_position_embeddings=True, window_size=2, window_block_indices=[0])),
        ("dinov3", "DINOv3ViTModel", "DINOv3ViTConfig", dict(VISION, image_size=64, num_register_tokens=2)), ("glpn", "GLPNForDepthEstimation", "GLPNConfig", dict(hidden_sizes=[16, 32, 80, 128], depths=[1, 1, 1, 1], decoder_hidden_size=16)),
        ("vitmae", "ViTMAEModel", "ViTMAEConfig", dict(VISION, image_size=64, mask_ratio=0.0)), ("ijepa", "IJepaModel", "IJepaConfig", dict(VISION, image_size=64)),
        ("upernet", "UperNetForSemanticSegmentation", "UperNetConfig", dict(hidden_size=32, auxiliary_in_channels=24, pool_scales=[1, 2, 3, 6], use_auxiliary_head=False)),
        ("table_transformer", "TableTransformerForObjectDetection", "TableTransformerConfig", dict(d_model=64, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=128, decoder_ffn_dim=128, num_queries=10)),
        ("conditional_detr", "ConditionalDetrForObjectDetection", "ConditionalDetrConfig", dict(d_model=64, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=128, decoder_ffn_dim=128, num_queries=10)),
        ("d_fine", "DFineForObjectDetection", "DFineConfig", dict(num_queries=20, decoder_layers=2)), ("rt_detr_v2", "RTDetrV2ForObjectDetection", "RTDetrV2Config", dict(num_queries=20, decoder_layers=2)),
        ("yolos_small", "YolosForObjectDetection", "YolosConfig", dict(VISION, image_size=[64, 64], num_detection_tokens=10)),
        ("maskformer_swin", "MaskFormerSwinModel", "MaskFormerSwinConfig", dict(image_size=64, embed_dim=24, depths=[1, 1], num_heads=[2, 4], window_size=4)),
        ("superpoint", "SuperPointForKeypointDetection", "SuperPointConfig", dict(encoder_hidden_sizes=[16, 16, 32, 32], decoder_hidden_size=32, descriptor_decoder_dim=32)),
        ("textnet", "TextNetModel", "TextNetConfig", {}), ("donut_swin", "DonutSwinModel", "DonutSwinConfig", dict(image_size=[64, 96], embed_dim=24, depths=[1, 1], num_heads=[2, 4], window_size=4)),
        ("zoedepth", "ZoeDepthForDepthEstimation", "ZoeDepthConfig", {}), ("sam_vision", "SamVisionModel", "SamVisionConfig", dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, image_size=64, global_attn_indexes=[1], window_size=2, output_channels=32)),
        ("sam2_vision", "Sam2HieraDetModel", "Sam2HieraDetConfig", dict(hidden_size=24, image_size=[64, 64], blocks_per_stage=[1, 1, 2, 1], embed_dim_per_stage=[24, 48, 96, 192], num_attention_heads_per_stage=[1, 2, 4, 8], global_attention_blocks=[3]))):
    _size = dict(d_fine=128, rt_detr_v2=128, table_transformer=96, conditional_detr=96, upernet=96, textnet=64, zoedepth=128).get(_name, 64)
    _shape = (3, 64, 96) if _name == "donut_swin" else (3, _size, _size)
    ENTRIES["hf_" + _name] = lambda m=_model, c=_config, o=_more, s=_shape: _huggingface(
        m, c, o, {"pixel_values": torch.rand(2, *s)}, {"pixel_values": BATCH}, ({"batch": 1}, {"batch": 3}))

_FRAMES = dict(VISION, image_size=32, patch_size=16, num_frames=4)
for _name, _model, _config, _more in (
        ("timesformer", "TimesformerModel", "TimesformerConfig", _FRAMES), ("videomae", "VideoMAEModel", "VideoMAEConfig", dict(_FRAMES, tubelet_size=2)),
        ("vivit", "VivitModel", "VivitConfig", dict(_FRAMES, tubelet_size=[2, 16, 16]))):
    ENTRIES["hf_" + _name] = lambda m=_model, c=_config, o=_more: _huggingface(
        m, c, o, {"pixel_values": torch.rand(2, 4, 3, 32, 32)}, {"pixel_values": BATCH}, ({"batch": 1},))

# ---- Images and text; series.


def _image_text(model, config, parts, size=64, length=12):
    import transformers

    settings = getattr(transformers, config)(**parts)
    inputs = {"input_ids": _tokens(length), "pixel_values": torch.rand(2, 3, size, size)}
    module = Results(getattr(transformers, model)(settings), list(inputs))
    return Entry(module, inputs, {"input_ids": TOKENS, "pixel_values": BATCH}, ({"batch": 1, "sequence": 7},))


_TEXT = {k: v for k, v in SMALL.items()}
ENTRIES["hf_clip"] = lambda: _image_text("CLIPModel", "CLIPConfig", dict(text_config=dict(_TEXT, bos_token_id=1, eos_token_id=2), vision_config=dict(VISION, image_size=64, patch_size=16)))
ENTRIES["hf_siglip"] = lambda: _image_text("SiglipModel", "SiglipConfig", dict(text_config=dict(_TEXT, max_position_embeddings=64), vision_config=dict(VISION, image_size=64, patch_size=16)))
ENTRIES["hf_altclip"] = lambda: _image_text("AltCLIPModel", "AltCLIPConfig", dict(text_config=dict(_TEXT, project_dim=64), vision_config=dict(VISION, image_size=64, patch_size=16)))
ENTRIES["hf_blip"] = lambda: _image_text("BlipForConditionalGeneration", "BlipConfig", dict(text_config=dict(_TEXT, bos_token_id=1, sep_token_id=2), vision_config=dict(VISION, image_size=64)))
ENTRIES["hf_vilt"] = lambda: _image_text("ViltModel", "ViltConfig", dict(SMALL, image_size=64, patch_size=16))
ENTRIES["hf_owlvit"] = lambda: _image_text("OwlViTModel", "OwlViTConfig", dict(text_config=dict(_TEXT, max_position_embeddings=16), vision_config=dict(VISION, image_size=64, patch_size=16)), length=12)
ENTRIES["hf_layoutlmv3"] = lambda: _encoder("LayoutLMv3Model", "LayoutLMv3Config", dict(SMALL, visual_embed=False, coordinate_size=32, shape_size=64, max_2d_position_embeddings=64))
_SERIES = lambda length: {"past_values": torch.rand(2, length), "past_time_features": torch.rand(2, length, 1), "past_observed_mask": torch.ones(2, length)}
_SERIES_OPTIONS = dict(prediction_length=6, context_length=24, lags_sequence=[1, 2, 3], num_time_features=1, encoder_layers=1, decoder_layers=1, d_model=32)
for _name, _model in (("time_series_transformer", "TimeSeriesTransformer"), ("informer", "Informer"), ("autoformer", "Autoformer")):
    ENTRIES["hf_" + _name] = lambda m=_model: _huggingface(
        m + "Model", m + "Config", _SERIES_OPTIONS, dict(_SERIES(27), future_values=torch.rand(2, 6), future_time_features=torch.rand(2, 6, 1)),
        dict.fromkeys([*_SERIES(27), "future_values", "future_time_features"], BATCH), ({"batch": 3},))

# ---- torchvision: videos, optical flow, segmentation.


def _video(name, frames=8, size=64):
    import torchvision

    module = torchvision.models.get_model(name, weights=None)
    return Entry(module, {"x": torch.rand(2, 3, frames, size, size)}, {"x": {0: "batch"}}, ({"batch": 1},))


for _name, _frames, _size in (("r3d_18", 8, 48), ("mc3_18", 8, 48), ("r2plus1d_18", 8, 48), ("swin3d_t", 8, 64)):
    ENTRIES["tv_" + _name] = lambda n=_name, f=_frames, s=_size: _video(n, f, s)


class Flow(torch.nn.Module):
    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, one, other):
        return self.module(one, other, num_flow_updates=2)[-1]


def _raft():
    import torchvision

    inputs = {name: torch.rand(2, 3, 128, 144) for name in ("one", "other")}
    return Entry(Flow(torchvision.models.optical_flow.raft_small(weights=None)), inputs, dict.fromkeys(inputs, BATCH), ({"batch": 1},))


ENTRIES["tv_raft_small"] = _raft
for _name in ("fcn_resnet50", "deeplabv3_resnet50"):
    ENTRIES["tv_" + _name] = lambda n=_name: _torchvision(n, 64, backbone=None)
for _name in ("maxvit_t",):
    ENTRIES["tv_" + _name] = lambda n=_name: _torchvision(n, 224, dims=BATCH)

# ---- timm.

for _name, _size in dict(
        coatnet_nano_rw_224=224, crossvit_tiny_240=240, davit_tiny=224, edgenext_xx_small=256, efficientvit_b0=224, efficientvit_m0=224, focalnet_tiny_srf=224,
        gcvit_xxtiny=224, halonet26t=256, lambda_resnet26t=256, botnet26t_256=256, eca_halonext26ts=256, inception_next_tiny=224, mambaout_femto=224,
        mvitv2_tiny=224, nest_tiny=224, pit_ti_224=224, repvit_m0_9=224, resnest14d=224, skresnet18=224, starnet_s1=224, swinv2_cr_tiny_ns_224=224,
        tiny_vit_5m_224=224, tnt_s_patch16_224=224, twins_pcpvt_small=224, twins_svt_small=224, visformer_tiny=224, convit_tiny=224, hiera_tiny_224=224,
        sequencer2d_s=224, swiftformer_xs=224, caformer_s18=224, fasternet_t0=224, shvit_s1=224, nextvit_small=224, rdnet_tiny=224, ghostnetv2_100=224).items():
    ENTRIES["timm_" + _name] = lambda n=_name, s=_size: _timm(n, s, BATCH)
for _name in ("mobilenetv4_conv_small", "rexnet_100", "hgnetv2_b0", "mixnet_s", "dpn68", "selecsls42b", "ese_vovnet19b_dw", "cs3darknet_s", "dm_nfnet_f0", "tresnet_m", "convmixer_768_32", "xception65"):
    ENTRIES["timm_" + _name] = lambda n=_name: _timm(n, 128, IMAGE)
